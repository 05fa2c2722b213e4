# SPDX-License-Identifier: Apache-2.0
import json
import os
import sys

call = json.load(sys.stdin)
os.makedirs(os.path.dirname(call["path"]) or ".", exist_ok=True)
with open(call["path"], "w") as file:
    file.write(call.get("text", ""))
print("edited " + call["path"])
