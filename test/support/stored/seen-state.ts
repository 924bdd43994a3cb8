import { createHash } from 'node:crypto';
import { writeJson } from '../../../src/core/json-text.ts';
import type { ConnectorName, EntityName } from '../../../src/core/names.ts';
import { keyTextOf, type ColumnValue, type EntityTable } from '../../../src/core/records.ts';
import type { RecordReader, StoredRecord } from '../../../src/sinks/record-reader.ts';
import { accessSink } from '../../../src/sinks/registry.ts';
import type { SinkPlace } from '../../../src/sinks/sink-access.ts';
import { news } from '../../contracts/sink/fixture.ts';

/** All that a sink's readers say of it, as JSON: records by their digest, those of `news` and the ledger in words. */
export async function seenState(sink: SinkPlace): Promise<unknown> {
  await using reader = await accessSink(sink).openRecords();
  const { history } = reader;
  const connectors = await history.connectors();
  const { unfinished, away } = await history.copies();
  const each: unknown[] = [];
  for (const { connector, lastHolder: _lastHolder, ...status } of connectors) {
    const tables: unknown[] = [];
    // Their rows are not whole, and no test reads them.
    const isRead = !unfinished.has(connector);
    for (const { entity } of isRead ? status.entities : []) {
      tables.push({ entity, ...(await seenTable(reader, connector, entity)) });
    }
    each.push({
      connector,
      ...status,
      tables,
      newestSeq: await reader.newestSeq(connector),
      runs: await history.runs({ connector, limit: 1_000 }),
      failures: await history.failures(connector, 1_000),
      quarantine: await history.quarantine(connector, 1_000),
      freshness: await history.freshness(connector),
      drift: await history.drift(connector),
      missing: await history.missing(connector, 1_000),
      fileFailures: await history.fileFailures(connector, 1_000),
      windows: await history.finishedWindows(connector, 'b1'),
      pause: await history.pause(connector),
    });
  }
  const state = {
    sinkId: reader.sinkId,
    unfinished: [...unfinished],
    away: [...away],
    pauses: await history.pauses(),
    connectors: each,
  };
  return JSON.parse(writeJson(state)) as unknown;
}

async function seenTable(
  reader: RecordReader,
  connector: ConnectorName,
  entity: EntityName,
): Promise<object> {
  const table = await reader.table(connector, entity);
  if (table === null) return { table };
  const digest = createHash('sha256');
  const texts: (readonly [text: string, keyText: string])[] = [];
  for await (const records of reader.changes(connector, table, 0)) {
    for (const record of records) {
      const key = table.key.map((name) => valueOf(table, record, name));
      // Of a deleted record the key's values alone are sure to be there.
      const shown = record.isDeleted ? { ...record, values: key, extra: null } : record;
      texts.push([writeJson(shown), keyTextOf(key)]);
      digest.update(writeJson(shown));
    }
  }
  const rows: unknown[] = [];
  // No question is asked before the batches are read to their end.
  for (const [text, keyText] of connector === news ? texts : []) {
    rows.push([text, await reader.history.explain(connector, table, keyText)]);
  }
  const tableId = await reader.tableId(connector, entity);
  return { table, tableId, count: texts.length, digest: digest.digest('hex'), rows };
}

function valueOf({ columns }: EntityTable, { values }: StoredRecord, name: string): ColumnValue {
  return values[columns.findIndex((column) => column.name === name)] ?? null;
}
