import { createPrivateDirectory } from '../../src/files/private-file.ts';

/* Started by private-file.test.ts, several at once: makes the same folders as the others. */

const startAtMs = Number(process.argv[2]);
Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, Math.max(0, startAtMs - 10 - Date.now()));
while (Date.now() < startAtMs);
for (let at = 0; at < 200; at += 1) createPrivateDirectory(`many/${at}/a/b`);
