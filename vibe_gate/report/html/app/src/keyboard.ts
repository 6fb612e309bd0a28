// Keys of the page, and the dialog that lists them.

import { facts, h } from "./dom";

export interface Key {
  key: string;
  does: string;
  run: () => void;
}

/** Listens for keys; returns what opens the list of them. */
export function listen(keys: readonly Key[]): () => void {
  const close = h("button", { type: "button" }, "Close");
  const list = facts(keys.map(({ key, does }) => [key, does]), "keys");
  const dialog = h("dialog", { "aria-label": "Keys" }, h("h2", {}, "Keys"), list, close);
  document.body.append(dialog);
  close.addEventListener("click", () => dialog.close());
  const open = (): void => dialog.showModal();
  document.addEventListener("keydown", (event) => {
    const target = event.target as HTMLElement;
    const isTyping = target.matches("input:not([type=checkbox]), select, textarea");
    if (event.ctrlKey || event.metaKey || event.altKey || dialog.open) return;
    if (event.key === "Escape" && isTyping) return target.blur();
    if (isTyping) return;
    const pressed = event.key === "?" ? { run: open } : keys.find((each) => each.key === event.key);
    if (!pressed) return;
    pressed.run();
    event.preventDefault();
  });
  return open;
}
