import { SyncError } from '../../../core/errors.ts';
import type { ConnectorName, EntityName, RunId } from '../../../core/names.ts';
import type { ResetCounts, ResetScope } from '../../repair.ts';
import type { Ledger } from '../ledger.ts';
import { lockConnector } from '../lock-connector.ts';
import { inTransaction } from '../transact.ts';
import { prepareForgetting, type Forgetting } from './forgetting.ts';

/** No record is written, so no run stands beside one. */
const noRun = '' as RunId;

/**
 * Forgets how far an entity or a whole connector has been read, with `withData` its records too. The connector's lock alone
 * is taken: its epoch and identity stay as they are.
 */
export async function reset(
  ledger: Ledger,
  connector: ConnectorName,
  what: ResetScope,
): Promise<ResetCounts> {
  const lock = lockConnector(ledger, connector);
  try {
    const mend = what.withData
      ? (): void => undefined
      : await ledger.store.findDamage(connector, entitiesOf(what), ledger.signal);
    return await inTransaction(ledger, noRun, () => {
      const forgetting = prepareForgetting(ledger.db);
      return what.entity === null
        ? resetConnector(ledger, forgetting, connector, { ...what, mend })
        : resetEntity(ledger, forgetting, connector, what.entity, { ...what, mend });
    });
  } finally {
    lock.release();
  }
}

interface MendingReset extends ResetScope {
  /** What is damaged, inside the transaction. */
  readonly mend: () => void;
}

function entitiesOf({ entity, tables }: Pick<ResetScope, 'entity' | 'tables'>): readonly EntityName[] | null {
  return entity === null ? null : [...new Set([entity, ...tables.map((table) => table.entity)])];
}

function resetEntity(
  ledger: Ledger,
  forgetting: Forgetting,
  connector: ConnectorName,
  entity: EntityName,
  { tables, withData, now, mend }: MendingReset,
): ResetCounts {
  const [walked] = tables;
  if (walked !== undefined && walked.entity !== entity) {
    throw usage(
      `Rows of "${entity}" are made from records of "${walked.entity}" and are read with them. Reset ${connector}/${walked.entity}.`,
    );
  }
  const entities = entitiesOf({ entity, tables }) ?? [];
  mend();
  if (!forgetting.isKnown(connector, entity)) {
    throw usage(
      `The sink holds nothing of ${connector}/${entity}: it has never been read. Check the name; \`status\` lists what is there.`,
    );
  }
  const partitions = forgetting.readAgain(connector, entities, now);
  let rows = 0;
  if (withData) {
    for (const one of entities) {
      ledger.store.drop(connector, one);
      rows += forgetting.dropRecords(connector, one);
    }
  }
  return { partitions, rows };
}

function resetConnector(
  ledger: Ledger,
  forgetting: Forgetting,
  connector: ConnectorName,
  { withData, now, mend }: MendingReset,
): ResetCounts {
  if (ledger.connectors.identity(connector) === undefined) {
    throw usage(
      `The sink holds nothing of connector "${connector}": it has never been read. Check the name; \`status\` lists what is there.`,
    );
  }
  const entities = forgetting.entities(connector);
  mend();
  const partitions = forgetting.readAgain(connector, entities, now);
  forgetting.dropWindows(connector);
  ledger.runs.forbidContinuing(connector);
  let rows = 0;
  if (withData) {
    for (const entity of entities) {
      ledger.store.drop(connector, entity);
      rows += forgetting.dropRecords(connector, entity);
    }
    forgetting.dropConnector(connector);
  }
  return { partitions, rows };
}

function usage(message: string): SyncError {
  return new SyncError(message, { code: 'USAGE', recovery: 'stop' });
}
