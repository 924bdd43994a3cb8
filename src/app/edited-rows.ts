import type { PreparedRecord } from '../core/records.ts';
import type { Entity } from '../definitions/definition.ts';
import { explodedShape, recordShape } from '../engine/prepare/prepare-record.ts';
import type { EntityTarget } from '../settings/entity-target.ts';
import { openExistingRecords } from '../sinks/registry.ts';
import type { EntityRows } from '../sinks/sink.ts';
import { compileDigest } from './content-digest.ts';

/**
 * The records whose stored values are others, whatever the hash beside them says. `evolved`: what they were prepared
 * for.
 */
export async function editedRows(
  { connector, entity }: EntityTarget,
  evolved: Entity,
  rows: readonly EntityRows[],
): Promise<ReadonlySet<PreparedRecord>> {
  const edited = new Set<PreparedRecord>();
  await using reader = await openExistingRecords(connector.sink);
  for (const { entity: name, records } of rows) {
    const isOwn = name === entity.name;
    const shape = isOwn ? recordShape(entity, undefined) : explodedShape(entity);
    const fresh = isOwn ? evolved.table : evolved.explodedTable;
    const table = (await reader?.table(connector.name, name)) ?? null;
    if (reader === null || table === null || shape === null || fresh === null) continue;
    const [digestOf, digestOfStored] = [compileDigest(shape, fresh), compileDigest(shape, table)];
    for (const record of records) {
      const stored = await reader.record(connector.name, table, record.keyText);
      if (stored === null || stored.isDeleted) continue;
      if (digestOf(record) !== digestOfStored(stored)) edited.add(record);
    }
  }
  return edited;
}
