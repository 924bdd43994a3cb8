import { join } from 'node:path';
import { openDatabase } from '../../../src/sinks/sqlite/open-database.ts';
import { sqliteFormat } from '../../../src/sinks/sqlite/sqlite-schema.ts';

/** Opens one new file after the other, each at a moment that was agreed on with other processes. */
const [folder = '', files = '', startAtMs = ''] = process.argv.slice(2);
for (let index = 0; index < Number(files); index += 1) {
  const atMs = Number(startAtMs) + index * 60;
  while (Date.now() < atMs) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1);
  const file = join(folder, `${index}.db`);
  openDatabase({ file, format: sqliteFormat, durability: 'normal' }).close();
}
