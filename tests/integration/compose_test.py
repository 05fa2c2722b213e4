# SPDX-License-Identifier: Apache-2.0
"""examples/fleet: the compose file is YAML, and each option that it gives `turnphase serve` is one that serve has, with
a database as its data. compose_test.py TURNPHASE SOURCE. Output: TAP."""
import pathlib
import re
import subprocess
import sys

try:
    import yaml
except ImportError:
    print("1..0 # SKIP Python's yaml is not installed (Debian package python3-yaml)")
    sys.exit(0)

turnphase, source = sys.argv[1], pathlib.Path(sys.argv[2])
fleet = source / "examples/fleet"
services = yaml.safe_load((fleet / "compose.yaml").read_text())["services"]
shown = subprocess.run([turnphase, "serve", "--help"], capture_output=True, text=True, check=True).stdout
known = set(re.findall(r"--[a-z][a-z-]*", shown))
failed = 0


def case(number, holds, what):
    global failed
    failed += not holds
    print(f"{'ok' if holds else 'not ok'} {number} - {what}")


print("1..3")
servers = {name: of for name, of in services.items() if of["image"] == "turnphase"}
words = [word for of in servers.values() for word in of["command"]]
options = {word.split("=")[0] for word in words if word.startswith("--")}
case(1, len(servers) == 2 and all(of["command"][0] == "serve" for of in servers.values()) and len(options) >= 5
     and options <= known, f"serve has all options of the compose file; unknown: {sorted(options - known)}")
database = services["database"]["environment"]
data = {word for word in words if word.startswith("--data=")}
case(2, data == {f"--data=postgres://{database['POSTGRES_USER']}@database/{database['POSTGRES_DB']}"},
     "the servers name the database as its service does")
balanced = set(re.findall(r"^ *server \S+ (\S+):8080 ", (fleet / "haproxy.cfg").read_text(), re.M))
case(3, balanced == set(servers) and all("--http=0.0.0.0:8080" in of["command"] for of in servers.values()),
     "the balancer sends requests to each server, where it listens")
sys.exit(failed > 0)
