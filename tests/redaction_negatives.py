"""Text without secrets, of the kinds that look most as if they had some. Frozen: `DIGEST` is that of all lines.

Hashes, ids, lock files, minified code, generated names, sample credentials of
documentation, references to secrets, code about passwords and tokens: each maker
writes lines of one kind from a seed, and a share of each stands in the corpus.
"""

# ruff: noqa: E501 - one line of the corpus is one line here

from __future__ import annotations

import base64
import hashlib
import json
import string
from collections.abc import Callable
from urllib.parse import quote

from redaction_set import HEX, URL64, WORD, Lot

DIGEST = "a25d16977354ae4ee47adaba436484728e1c7164f4c6aa0824f8b5374a1ae95c"
LINES_EACH = 1200

_NOUNS = ("user", "order", "invoice", "session", "token", "password", "secret", "key", "account", "request", "cache",
          "cursor", "credential", "handler", "registry", "bucket", "passport", "tokenizer", "keyboard", "monkey")  # fmt: skip
_VERBS = ("load", "store", "parse", "rotate", "refresh", "validate", "hash", "encode", "reset", "fetch", "compare")
_PROSE = ("The", "gate", "reads", "every", "token", "of", "the", "password", "policy", "before", "a", "secret", "is",
          "rotated", "and", "keys", "are", "kept", "in", "vaults", "which", "nobody", "opens", "without", "reason",
          "authentication", "requires", "credentials", "basic", "bearer", "header", "passes", "compass")  # fmt: skip


def _uuid(lot: Lot) -> str:
    return "-".join(lot.run(HEX, n) for n in (8, 4, 4, 4, 12))


def _name(lot: Lot) -> str:
    return f"{lot.one_of(*_VERBS)}_{lot.one_of(*_NOUNS)}"


def _camel(lot: Lot) -> str:
    return lot.one_of(*_VERBS) + lot.one_of(*_NOUNS).title() + lot.one_of("", "2", "ById", "V1")


def _bytes64(lot: Lot, length: int) -> str:
    return base64.b64encode(bytes(lot.below(256) for _ in range(length))).decode()


def _python(lot: Lot) -> str:
    noun, name = lot.one_of(*_NOUNS), _name(lot)
    return lot.one_of(
        f"    {noun} = {name}(request, timeout={lot.below(900)})",
        f"    if {noun}.password == other.password and len(token) > {lot.below(90)}:",
        f"def {name}(self, {noun}: str, *, api_key: str | None = None) -> dict[str, {noun.title()}]:",
        f'    {noun}_key = f"{{prefix}}:{noun}:{{user.id}}:{lot.below(99)}"',
        f'    token = os.environ["{noun.upper()}_TOKEN_{lot.below(9)}"]',
        f'        raise ValueError("the {noun} token must not be empty; see section {lot.below(20)}.{lot.below(9)}")',
        f'    assert {name}("{noun}-{lot.below(999)}") == "\\x1b[3{lot.below(8)}m{noun}\\x1b[0m\\n"',
        f"    password_hash = bcrypt.hashpw({noun}.encode(), bcrypt.gensalt({lot.below(16)}))",
        f'    secret = getpass.getpass("{noun} secret for {name}: ")',
        f"    tokens = tokenizer.encode(text)[:{lot.below(4096)}]  # {noun} tokens",
        f'    sort_key = lambda item: (item["{noun}"], -item["{name}"])',
        f'PASSWORD_PATTERN = re.compile(r"^(?=.*[A-Z])(?=.*\\d)[A-Za-z\\d@$!%*?&]{{{lot.below(9)},32}}$")',
        f'    headers = {{"Authorization": f"Bearer {{token}}", "X-Request": "{noun}"}}',
        f'    access_token = response.json()["access_token"]  # {name}',
        f"    private_key = serialization.load_pem_private_key(data, password=None)  # {noun}",
    )


def _javascript(lot: Lot) -> str:
    camel, noun = _camel(lot), lot.one_of(*_NOUNS)
    return lot.one_of(
        f"  const {camel} = async ({{ token, apiKey }}) => fetch(`/api/{noun}s/${{id}}?token=${{token}}`);",
        f'  password: yup.string().min({lot.below(20)}).required("{noun}.password.required"),',
        f"  const secretKey = process.env.{noun.upper()}_SECRET_KEY ?? config.get('{noun}.secretKey');",
        f'  tokenType: "{noun}_token", passwordField: "{camel}Password{lot.below(9)}",',
        f"  apiKey: import.meta.env.VITE_{noun.upper()}_API_KEY,",
        f'  "key": "{camel}.{noun}.{lot.below(99)}", "keyCode": {lot.below(222)},',
        f"  if (token.type === TokenType.{noun.title()} || key === 'Arrow{lot.one_of('Up', 'Down')}') return;",
        f"  url: 'https://api.{noun}.example.com/v{lot.below(4)}/{camel}?page={lot.below(99)}&q=a%20b%26c%3Dd',",
    )


def _minified(lot: Lot) -> str:
    def one() -> str:
        a, b, c = (lot.run(string.ascii_letters, 1 + lot.below(2)) for _ in range(3))
        return lot.one_of(
            f"function {a}({b},{c}){{return {b}.{_camel(lot)}({c},{lot.below(9999)})}}",
            f'{a}.password=function({b}){{return {c}("{_name(lot)}",{b})}},',
            f'{{key:"{a}{lot.below(99)}",token:{b},secret:!{lot.below(2)}}},',
            f'{a}=/^[\\w.%+-]+@[\\w-]+\\.[a-z]{{2,{lot.below(9)}}}$/i,{b}="\\u00{lot.run(HEX, 2)}\\u20{lot.run(HEX, 2)}",',
            f"{a}.{b}=0x{lot.run(HEX, 8)},{c}[{lot.below(999)}]=!0;",
        )

    return "".join(one() for _ in range(12))


def _lock(lot: Lot) -> str:
    noun = lot.one_of(*_NOUNS)
    version = f"{lot.below(20)}.{lot.below(30)}.{lot.below(10)}"
    return lot.one_of(
        f'      "integrity": "sha512-{_bytes64(lot, 64)}",',
        f'      "resolved": "https://registry.npmjs.org/{noun}-utils/-/{noun}-utils-{version}.tgz",',
        f'checksum = "{lot.run(HEX, 64)}"',
        f"github.com/{noun}/{_name(lot)} v{version} h1:{_bytes64(lot, 32)}",
        f'    {{url = "https://files.pythonhosted.org/packages/{lot.run(HEX, 2)}/{lot.run(HEX, 2)}/{lot.run(HEX, 60)}/{noun}-{version}.tar.gz", hash = "sha256:{lot.run(HEX, 64)}", size = {lot.below(99999)}}},',
        f"  {noun}-tokens@{version}:",
        f"    resolution: {{integrity: sha512-{_bytes64(lot, 64)}}}",
        f"    --hash=sha256:{lot.run(HEX, 64)} \\",
        f"{noun}=={version} \\",
        f'"{noun}@npm:^{version}": version: {version}, checksum: 10/{lot.run(HEX, 64)}',
    )


def _ids(lot: Lot) -> str:
    noun = lot.one_of(*_NOUNS)
    return lot.one_of(
        f"commit {lot.run(HEX, 40)}",
        f"index {lot.run(HEX, 10)}..{lot.run(HEX, 10)} 100644",
        f'  "id": "{_uuid(lot)}", "{noun}_id": "{lot.run(HEX, 24)}",',
        f"{lot.run(HEX, 64)}  dist/{noun}-{lot.below(99)}.tar.gz",
        f'  "etag": "W/\\"{lot.run(HEX, 32)}\\"", "sha1": "{lot.run(HEX, 40)}",',
        f"arn:aws:iam::{lot.run(string.digits, 12)}:role/{noun}-{lot.run(WORD, 12)}",
        f"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAA{_bytes64(lot, 33)[:43]} {noun}@host",
        f"ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAABAQ{_bytes64(lot, 180)} {noun}@laptop",
        f"trace={lot.run(HEX, 32)} span={lot.run(HEX, 16)} key_id={lot.run(HEX, 16)}",
        f"{noun}:{lot.below(99999)}:{_uuid(lot)}:{lot.run(string.digits, 13)}",
        f'  "token_id": "{lot.run(HEX, 32)}", "key_fingerprint": "SHA256:{_bytes64(lot, 32)[:43]}"',
        f"image: ghcr.io/{noun}/{_name(lot)}@sha256:{lot.run(HEX, 64)}",
        f"  - {_uuid(lot)} # {noun}",
        "".join(f"{lot.run(HEX, 4)} " for _ in range(8)) + " ................",
    )


def _config(lot: Lot) -> str:
    noun = lot.one_of(*_NOUNS)
    return lot.one_of(
        f"  {noun.upper()}_PASSWORD: ${{{{ secrets.{noun.upper()}_PASSWORD }}}}",
        f"  password: {{{{ vault_{noun}_password_{lot.below(9)} }}}}",
        f"{noun.upper()}_API_KEY=your-{noun}-api-key-here-{lot.below(9999)}",
        f"{noun.upper()}_SECRET=<{noun}-secret-{lot.below(99)}>",
        f"  secretKeyRef: {{ name: {noun}-credentials-{lot.below(9)}, key: password-{lot.below(9)} }}",
        f"  master_password = data.aws_secretsmanager_secret_version.{noun}_{lot.below(9)}.secret_string",
        f"DATABASE_URL=postgres://postgres:postgres@localhost:5432/{noun}_{lot.below(9)}",
        f"  url: redis://user:password@cache.example.com:6379/{lot.below(9)}",
        f"token = var.{noun}_token_v{lot.below(9)}",
        f"  auth_token_ttl_seconds: {lot.below(99999)}00",
        f"  password_policy: min-length-{lot.below(30)}-with-symbols",
        f"  secret_path: kv/data/{noun}/prod-{lot.below(9)}/credentials",
        f"{noun}.token.endpoint=https://login.{noun}.example.com/oauth2/v{lot.below(3)}.0/token",
        f"ENV KEYCLOAK_TOKEN_URL=https://sso.example.org/realms/{noun}{lot.below(99)}/token",
        f"aws_access_key_id = AKIAIOSFODNN7EXAMPLE # {noun} {lot.below(99)}",
        f"sk_test_placeholder_{noun}_{lot.below(99)}",
    )


def _logs(lot: Lot) -> str:
    noun = lot.one_of(*_NOUNS)
    clock = f"2026-0{1 + lot.below(9)}-1{lot.below(9)}T1{lot.below(9)}:{10 + lot.below(50)}:{10 + lot.below(50)}.{100 + lot.below(900)}Z"
    return lot.one_of(
        f"\x1b[32mINFO\x1b[0m {clock} {noun} token accepted request_id={_uuid(lot)} in {lot.below(900)}ms",
        f"\x1b[1;31mERROR\x1b[0m [{noun}] password check failed for user id {lot.below(99999)}: {_name(lot)}()",
        f'{clock} GET /api/{noun}s?cursor={lot.below(999)}&path=%2Fsrc%2F{noun}%2Fmain.py&q=caf%C3%A9+{lot.below(9)} 200',
        json.dumps({"ts": clock, "msg": f"line\n\"{noun}\" \u00e9 \U0001f511", "sha": lot.run(HEX, 40), "keys": lot.below(99)}),
        json.dumps({"event": json.dumps({"tool": "Bash", "id": _uuid(lot), "out": f"{_name(lot)}\n\tok\n"})}),
        f"  {lot.below(99)}% |{'#' * lot.below(30)}| {lot.below(9999)}/{lot.below(9999)} tokens/s={lot.below(99)}.{lot.below(9)}",
        f"debug: authorization: Bearer [redacted] {noun} basic authentication {lot.below(99)}",
        f"cache key {noun}/{lot.run(HEX, 16)} secret-scan: 0 findings; tokens in {lot.below(9999)} out {lot.below(99)}",
    )  # fmt: skip


def _encoded(lot: Lot) -> str:
    noun = lot.one_of(*_NOUNS)
    prose = " ".join(lot.one_of(*_PROSE) for _ in range(9))
    return lot.one_of(
        f"data:image/png;base64,iVBORw0KGgo{_bytes64(lot, 90)}",
        base64.b64encode(prose.encode()).decode(),
        base64.b64encode(json.dumps({noun: lot.below(999), "id": _uuid(lot)}).encode()).decode(),
        prose.encode().hex(),
        f"GET /search?q={quote(prose)}&{noun}={lot.below(99)} HTTP/1.1",
        "".join(f"\\u{ord(char):04x}" for char in prose[:30]),
        f"Subject: =?utf-8?Q?{noun}=20{lot.below(99)}?= {prose}=",
        f"&lt;input type=&quot;password&quot; name=&quot;{noun}&quot; value=&quot;&quot;&gt; &#x2713;",
        _bytes64(lot, 57),
        f"src: url(data:font/woff2;base64,d09GMgABAAAAA{_bytes64(lot, 60)}) format('woff2');",
    )


def _prose(lot: Lot) -> str:
    return " ".join(lot.one_of(*_PROSE) for _ in range(14)).capitalize() + "."


def _documents(lot: Lot) -> str:
    noun = lot.one_of(*_NOUNS)
    return lot.one_of(
        f'curl -H "Authorization: Bearer $TOKEN" https://api.example.com/v1/{noun}s/{lot.below(999)}',
        f"`export {noun.upper()}_TOKEN=<your token>` sets the token; `--password-file PATH` reads it from a file.",
        f"| `{_name(lot)}_key` | string | The key under which the {noun} is stored, {lot.below(64)} characters at most |",
        f"A token looks like `ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx`; {noun}s start with `sk-...`. See {lot.below(9)}.",
        f'"password": "Passwort für {noun} eingeben ({lot.below(99)} Zeichen)",',
        f"-----BEGIN PUBLIC KEY----- {_bytes64(lot, 30)} -----END PUBLIC KEY-----",
        f"http://user:pass@example.com:{lot.below(9999)}/{noun} and https://{noun}:secret@host/ are samples.",
        f"password: changeme-{noun}-{lot.below(99)}  # an example, never used",
        f"The {noun} password is hashed {lot.below(9)}00,000 times; tokens expire after {lot.below(90)} minutes.",
    )


def _generated(lot: Lot) -> str:
    noun = lot.one_of(*_NOUNS)
    return lot.one_of(
        f".{noun}__{lot.run(WORD, 5)}{{content:\"\\f{lot.run(HEX, 3)}\";color:#{lot.run(HEX, 6)};width:{lot.below(99)}%}}",
        f"import {{{_camel(lot)}}} from './chunk-{lot.run(URL64, 8)}.js'; //# sourceMappingURL={noun}.{lot.run(HEX, 8)}.js.map",
        f"  0x{lot.run(HEX, 2)}, 0x{lot.run(HEX, 2)}, 0x{lot.run(HEX, 2)}, 0x{lot.run(HEX, 2)}, 0x{lot.run(HEX, 2)},",
        f"static const char {noun}_tag[] = \"\\x{lot.run(HEX, 2)}\\x{lot.run(HEX, 2)}\\n\";",
        f"message {noun.title()}Token {{ string {noun}_key = {lot.below(99)}; bytes password_digest = {lot.below(99)}; }}",
        f'    "test_{_name(lot)}_{lot.run(HEX, 8)}", "{_camel(lot)}{lot.run(HEX, 7)}.snap",',
        f"CREATE INDEX idx_{noun}_token_{lot.run(HEX, 8)} ON {noun}s (token, password_hash, {_name(lot)});",
        f"AAAA,SAAS,CAAC,{noun};{lot.run('ABCDEFGIKMOQSUW', 4)},{lot.run('ABCDEFGIKMOQSUW', 5)};{lot.run('ABCDEFGIKMOQSUW', 4)}",
        f'<svg><path d="M{lot.below(99)}.{lot.below(99)}c{lot.below(9)}.{lot.below(99)}-{lot.below(9)} {lot.below(99)}z"/></svg>',
    )  # fmt: skip


_MAKERS: tuple[Callable[[Lot], str], ...] = (
    _python, _javascript, _minified, _lock, _ids, _config, _logs, _encoded, _prose, _documents, _generated,
)  # fmt: skip


def lines() -> list[str]:
    """The corpus: LINES_EACH lines of every kind, in blocks."""
    return [maker(lot) for maker in _MAKERS for lot in [Lot(maker.__name__)] for _ in range(LINES_EACH)]


def digest(corpus: list[str]) -> str:
    """sha-256 of the lines."""
    return hashlib.sha256("\n".join(corpus).encode()).hexdigest()
