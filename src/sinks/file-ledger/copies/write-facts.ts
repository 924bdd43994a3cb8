import { writeJson } from '../../../core/json-text.ts';
import type { ConnectorName } from '../../../core/names.ts';
import type { CopiedConnector, CopiedTable } from '../../copies.ts';
import {
  factColumns,
  movedNumber,
  seenRows,
  type FactName,
  type FactRow,
  type Facts,
} from '../../copies/facts.ts';
import type { Holder } from '../../lease.ts';
import { writeColumns } from '../../stored-json.ts';
import type { Ledger } from '../ledger.ts';
import { chunkBytes, readChunk, writeChunk } from '../store-rows.ts';

export function writeFacts(
  ledger: Ledger,
  connector: ConnectorName,
  of: FactName,
  rows: readonly FactRow[],
): void {
  const { db, transitions } = ledger;
  if (of === 'seen') return mergeChunks(ledger, connector, rows as readonly Facts['seen'][]);
  if (of === 'partitions') {
    for (const row of rows) transitions.copyIn.run({ ...row, connector });
    return undefined;
  }
  const names = [
    ...(of === 'counts' ? [] : ['connector']),
    ...factColumns(of).flatMap(({ name, meaning, isDerived }) =>
      isDerived || meaning === 'order' ? [] : [name],
    ),
  ];
  const insert = db.prepare<[Readonly<Record<string, unknown>>]>(
    `INSERT INTO _sync_${of} (${names.map((name) => `"${name}"`).join(', ')}) VALUES (${names.map((name) => `:${name}`).join(', ')})`,
  );
  for (const row of rows) insert.run({ ...row, connector });
  return undefined;
}

/** Chunks of the facts are shorter than those here: each fills a part of both halves. */
function mergeChunks({ db }: Ledger, connector: ConnectorName, rows: readonly Facts['seen'][]): void {
  const half = chunkBytes / 2;
  const partBytes = seenRows / 8;
  const parts = half / partBytes;
  for (const { entity, origin, chunk, bits } of rows) {
    const number = Math.floor(chunk / parts);
    const whole = readChunk(db).get(connector, entity, origin, number) ?? Buffer.alloc(chunkBytes);
    const at = (chunk % parts) * partBytes;
    bits.copy(whole, at, 0, partBytes);
    bits.copy(whole, half + at, partBytes);
    writeChunk(db).run(connector, entity, origin, number, whole);
  }
}

export function writeTable({ db }: Ledger, connector: ConnectorName, table: CopiedTable, runs: number): void {
  const { key, stored, declared, evolved, takenOver, firstOrigin } = table;
  db.prepare(
    `INSERT INTO _sync_tables (connector, entity, key, stored, declared, evolved, rows, deleted, as_of, taken_over, adopted_at, first_origin, table_id, described)
     VALUES (:connector, :entity, :key, :stored, :declared, :evolved, :rows, :deleted, :asOf, :takenOver, :adoptedAt, :firstOrigin, :tableId, :described)`,
  ).run({
    ...table,
    connector,
    key: JSON.stringify(key),
    stored: writeColumns(stored),
    declared: writeColumns(declared),
    evolved: writeColumns(evolved),
    takenOver: movedNumber(takenOver, runs),
    firstOrigin: movedNumber(firstOrigin, runs),
  });
}

export function writeConnector({ db, pauses }: Ledger, copied: CopiedConnector, holder: Holder): void {
  const { connector, baseUrl, connectorId, definition, definitionHash, newestSeq, pause } = copied;
  db.prepare(
    `INSERT INTO _sync_connectors (connector, base_url, connector_id, definition, definition_hash, epoch, holder)
     VALUES (?, ?, ?, ?, ?, 1, ?)`,
  ).run(connector, baseUrl, connectorId, definition, definitionHash, writeJson(holder));
  if (pause !== null) pauses.pause.run(connector, pause.since, pause.reason);
  db.prepare('UPDATE _sync_meta SET seq = max(seq, ?)').run(newestSeq);
}
