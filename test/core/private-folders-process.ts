import { createPrivateDirectory } from '../../src/files/private-file.ts';

/* Started by private-file.test.ts, several at once: makes the same folders as the others. */

const startAtMs = Number(process.argv[2]);
while (Date.now() < startAtMs);
for (let at = 0; at < 300; at += 1) createPrivateDirectory(`many/${at}/a/b`);
