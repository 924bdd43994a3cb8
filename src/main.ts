#!/usr/bin/env node
import { runCommandLine } from './cli/run-command-line.ts';

const lingerMs = 1000;

process.exitCode = await runCommandLine({
  args: process.argv.slice(2),
  script: process.argv[1] ?? '',
  env: process.env,
  cwd: process.cwd(),
  stdin: () => process.stdin,
  stdout: process.stdout,
  stderr: process.stderr,
});
// Whatever a library may have left open must not keep a finished program alive.
setTimeout(() => process.exit(), lingerMs).unref();
