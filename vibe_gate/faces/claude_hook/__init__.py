"""Where settings that earlier versions wrote find the scripts, which are in `agent_hook` now."""
