import { join } from 'node:path';
import { expect } from 'vitest';
import { instant } from '../../../src/core/clock.ts';
import { openRawRows } from '../../../src/sinks/ledger/raw-rows.ts';
import { openLedgerFile } from '../../../src/sinks/sqlite/open-ledger.ts';
import { sqliteTables } from '../../../src/sinks/sqlite/records/record-tables.ts';
import { sqliteFormat } from '../../../src/sinks/sqlite/schema.ts';
import { manualClock, members, news, start } from '../../contracts/sink/fixture.ts';
import { it } from '../../support/it.ts';

const hashes = { hash: 'a'.repeat(32), volatileHash: null };
const rowsPerBlock = 128;

it('loads what it has stored again once too many blocks were in memory', async ({ folder }) => {
  const clock = manualClock();
  const file = join(folder, 'warehouse.db');
  await using ledger = await openLedgerFile({
    file,
    format: sqliteFormat,
    records: sqliteTables,
    durability: 'normal',
    clock,
  });
  const raw = openRawRows(news, instant(start));
  // One row of each of 600 blocks, then their neighbours.
  const rows = Array.from({ length: 600 }, (_, index) => index * rowsPerBlock);
  for (const batch of [rows, rows.map((row) => row + 1)]) {
    await ledger.db.transact(async (tx) => {
      await raw.begin(tx, [members]);
      await raw.load(tx, members, batch);
      for (const row of batch) raw.set(members, row, { ...hashes, raw: 'r'.repeat(16) });
      raw.save(tx);
    });
  }
  const filled = await ledger.db.read(
    async (tx) => await tx.rows<{ hashes: Buffer }>('SELECT hashes FROM _sync_raw ORDER BY chunk'),
  );
  expect(filled).toHaveLength(600);
  const slot = Buffer.concat([Buffer.from('r'.repeat(12)), Buffer.from('aaaaaaaa', 'hex')]);
  for (const one of filled) {
    expect(one.hashes.subarray(0, 33)).toEqual(Buffer.concat([slot, slot, Buffer.alloc(1)]));
  }
});
