import { writeJson } from '../../../core/json-text.ts';
import type { ConnectorName } from '../../../core/names.ts';
import type { CopiedConnector } from '../../copies.ts';
import { factNames, movedNumber, type FactName, type FactRow } from '../../copies/facts.ts';
import type { Holder } from '../../lease.ts';
import { writeColumns } from '../../stored-json.ts';
import { transitions } from '../partitions/transitions.ts';
import type { Ledger } from '../ledger.ts';
import { writePause } from '../runs/runs.ts';
import type { Tx } from '../../../sql/database.ts';
import { textHash } from '../../../sql/text-hash.ts';
import { insertFacts } from './insert-facts.ts';

const inserts = Object.fromEntries(
  factNames.map((of) => [
    of,
    insertFacts(of, of === 'downloads' ? [{ name: 'key_hash', of: ({ key }) => textHash(String(key)) }] : []),
  ]),
) as Readonly<Record<FactName, ReturnType<typeof insertFacts>>>;

export async function writeFacts(
  tx: Tx,
  {
    of,
    ...copied
  }: { readonly connector: ConnectorName; readonly of: FactName; readonly rows: readonly FactRow[] },
): Promise<void> {
  if (of === 'partitions') await transitions.copyIn(tx, copied);
  else await inserts[of](tx, copied);
}

/** What makes the connector one of this sink. Its change numbers go on above those of the source, and of an earlier connector of that name. */
export async function writeConnector(
  tx: Tx,
  ledger: Pick<Ledger, 'records' | 'raiseSeq'>,
  {
    copied,
    holder,
    epoch,
    runs,
  }: {
    readonly copied: CopiedConnector;
    readonly holder: Holder;
    readonly epoch: number;
    readonly runs: number;
  },
): Promise<void> {
  const { connector, baseUrl, connectorId, definition, definitionHash, newestSeq, pause, tables } = copied;
  for (const { key, stored, declared, evolved, ...table } of tables) {
    await tx.run(
      `INSERT INTO _sync_tables
         (connector, entity, name, key, stored, declared, evolved, rows, deleted, last_row, as_of, taken_over, adopted_at, first_origin, table_id, described)
       VALUES (:connector, :entity, :name, :key, :stored, :declared, :evolved, :rows, :deleted, :lastRow, :asOf, :takenOver,
         :adoptedAt, :firstOrigin, :tableId, :described)`,
      {
        ...table,
        connector,
        name: ledger.records.tableName(connector, table.entity),
        key: JSON.stringify(key),
        stored: writeColumns(stored),
        declared: writeColumns(declared),
        evolved: writeColumns(evolved),
        takenOver: movedNumber(table.takenOver, runs),
        firstOrigin: movedNumber(table.firstOrigin, runs),
      },
    );
  }
  await tx.run(
    `INSERT INTO _sync_connectors (connector, base_url, connector_id, definition, definition_hash, epoch, holder)
     VALUES (:connector, :baseUrl, :connectorId, :definition, :definitionHash, :epoch, :holder)`,
    { connector, baseUrl, connectorId, definition, definitionHash, epoch, holder: writeJson(holder) },
  );
  if (pause !== null) await writePause(tx, connector, pause);
  await ledger.raiseSeq(tx, connector, newestSeq);
}
