"""Answers of the functions in the scripts of widgets."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

import ebmtut.widgets

FOLDER = Path(ebmtut.widgets.__file__).parent
node = pytest.mark.skipif(shutil.which("node") is None, reason="needs node")


def ask(folder: Path, scripts: str, question: str, *arguments: Any) -> Any:
    """Ask functions of scripts, by node; `js` is what the first script exports.

    The answer is the value of the question, in which `given` are the arguments.
    """
    for name in scripts.split():
        text = (FOLDER / f"{name}.js").read_text("utf-8")
        text = text.replace('.js"', '.mjs"')
        (folder / f"{name}.mjs").write_text(text, "utf-8")
    module = folder / f"{scripts.split()[0]}.mjs"
    code = f"""import(process.argv[1]).then((js) => {{
      const given = JSON.parse(process.argv[2]);
      console.log(JSON.stringify({question}));
    }});"""
    command = ["node", "-e", code, str(module), json.dumps(arguments)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(done.stdout)
