import { instant, type Instant } from '../../../core/clock.ts';
import { type SyncError, usage } from '../../../core/errors.ts';
import { grouped } from '../../../core/grouped.ts';
import type { ConnectorName, EntityName, OfEntity, RunId } from '../../../core/names.ts';
import { noCounts, type PageCounts, type PreparedRecord } from '../../../core/records.ts';
import { cellOf, type Tx, textHash } from '../../../sql/database.ts';
import { checkCounts, addCounts } from '../counts.ts';
import { misfitError } from '../../decisions/meet-record.ts';
import * as connectors from '../held-connectors.ts';
import type { Holder } from '../../lease.ts';
import type { AdoptedIdentity, ResetCounts, ResetScope } from '../../requests.ts';
import { parseNames } from '../../stored-json.ts';
import { noteAction } from '../noted-actions.ts';
import { deleteRows } from '../deletes/ledger-deletes.ts';
import { beginFiles } from '../downloads/ledger-files.ts';
import { long, outsideRun, type Commit, type InLease, type Ledger } from '../ledger.ts';
import { transitions } from '../partitions/transitions.ts';
import type { ChangedRow, RecordTable } from '../driver.ts';
import { readStored, storeRows } from '../store-rows.ts';
import { noteStored, tableNumbers, knownEntities } from '../tables.ts';
import { IdentityChangedError } from '../../sink-errors.ts';
import { forbidContinuing, interruptRunning } from '../runs/run-chains.ts';

/** Repairs that a person makes outside a sync. */
export function ledgerRepair(ledger: Ledger, inLease: InLease) {
  return {
    reset: (connector: ConnectorName, what: ResetScope) => reset(ledger, connector, what),
    adopt: (identity: AdoptedIdentity, now: Instant) => adopt(ledger, identity, now),
    remove: (connector: ConnectorName, how: Removal) => remove(ledger, connector, how),
    undo: inLease(undo, long),
    storeRecord: inLease(storeOne),
    tombstoneRecord: inLease(tombstoneOne),
  };
}

/** Stores one record outside a walk, inside the lease's run. */
async function storeOne(commit: Commit, entity: EntityName, record: PreparedRecord): Promise<PageCounts> {
  const { current, tx } = commit;
  const { keyText } = record;
  if (current.purged?.isPurged(entity, record) === true) throw purgedError(entity);
  const before = (await current.tables.get(entity)?.find(tx, [record]))?.get(keyText);
  const shown = [{ entity, records: [record], isInsertOnly: false, owner: null }];
  const [stored] = await storeRows(commit, shown, await readStored(commit, shown));
  const counts = { ...noCounts, fetched: 1, ...stored };
  checkCounts(entity, counts);
  addCounts(tx, current.run, [{ entity, counts }]);
  current.seen.save(tx);
  if (before !== undefined && before.deletedAt !== null) await giveBackBelow(commit, entity, [keyText]);
  return counts;
}

function purgedError(entity: EntityName): SyncError {
  return usage(
    `This record of ${entity}, or the one that it belongs to, was purged, and purged records stay away. To let it return, purge it once more with --allow-return.`,
  );
}

/**
 * Tombstones the row of this key, if there is one; true when it was alive. A person asked for it by its key, with
 * `--allow-deletes`: rows below are deleted along with it, as in a sync that is allowed to delete.
 */
async function tombstoneOne(commit: Commit, entity: EntityName, keyText: string): Promise<boolean> {
  const table = commit.current.tables.get(entity);
  const stored = (await table?.rowsOf(commit.tx, [keyText]))?.get(keyText);
  if (stored === undefined || stored.deletedAt !== null) return false;
  await deleteRows(commit, entity, [{ row: stored.row, keyText: stored.keyText, permission: 'allowed' }]);
  return true;
}

/**
 * Forgets the reading progress of an entity (with those exploded from it) or of a whole connector, with `withData` its
 * records too. The connector's identity stays as it is; the number of its newest change stays even when the connector
 * is forgotten, so that no number is reused. Takes the lock, whatever the identity. Throws `ConnectorBusyError`, and
 * USAGE where there is nothing of that name.
 */
async function reset(ledger: Ledger, connector: ConnectorName, what: ResetScope): Promise<ResetCounts> {
  const forget = async (tx: Tx): Promise<ResetCounts> => {
    const resetting: connectors.Resetting = { tx, records: ledger.records, connector, what };
    const entities = await knownEntities(tx, connector);
    const isKnown = what.entity !== null || (await connectors.storedIdentity(tx, connector)) !== undefined;
    checkReset(connector, what, isKnown ? entities : null);
    const chosen = resetEntities(what);
    const counts =
      chosen === null
        ? await connectors.resetConnector(resetting, entities)
        : await connectors.resetEntity(resetting, chosen);
    const { entity, withData } = what;
    noteAction(tx, ledger, { action: 'reset', connector, entity, detail: { withData, ...counts } });
    return counts;
  };
  return await connectors.holdingFor('repair', ledger, connector, async (taken) => {
    if (!what.withData) await ledger.lines?.mend(taken, resetEntities(what));
    const counts = await outsideRun(taken, forget);
    if (what.withData) await ledger.lines?.tidy(taken, resetEntities(what));
    return counts;
  });
}

/** `known`: every known entity; null where the connector is unknown. Throws USAGE where there is nothing to forget. */
function checkReset(
  connector: ConnectorName,
  { entity, tables }: ResetScope,
  known: readonly EntityName[] | null,
): void {
  const [walked] = tables;
  if (entity !== null && walked !== undefined && walked.entity !== entity) {
    throw usage(
      `Rows of "${entity}" are made from records of "${walked.entity}" and are read with them. Reset ${connector}/${walked.entity}.`,
    );
  }
  if (entity === null ? known !== null : known?.includes(entity) === true) return;
  const what = entity === null ? `connector "${connector}"` : `${connector}/${entity}`;
  throw usage(
    `The sink holds nothing of ${what}: it has never been read. Check the name; \`status\` lists what is there.`,
  );
}

/** The entity with those exploded from its records; null: all of the connector. */
function resetEntities({ entity, tables }: ResetScope): readonly EntityName[] | null {
  return entity === null ? null : [...new Set([entity, ...tables.map((table) => table.entity)])];
}

/**
 * Assigns the connector to this address and connector id. Rows stay; no run is resumed, and none deletes before a full
 * run has agreed: a resumed walk would send positions of the old address to the new one. All records of the new address
 * are parsed, also those with the same bytes. Takes the lock. Throws `ConnectorBusyError`, USAGE where the sink holds
 * nothing of that name, `IdentityChangedError` for another connector type.
 */
export async function adopt(ledger: Ledger, identity: AdoptedIdentity, now: Instant): Promise<void> {
  const { connector, baseUrl, connectorId, definition } = identity;
  const repair = async (tx: Tx): Promise<void> => {
    const stored = await connectors.storedIdentity(tx, connector);
    if (stored === undefined) {
      throw usage(`The sink holds nothing of connector "${connector}". Sync it, there is nothing to adopt.`);
    }
    if (stored.definition !== definition) {
      const other = { what: 'definition', stored: stored.definition, given: definition } as const;
      throw new IdentityChangedError(connector, [other]);
    }
    await interruptRunning(tx, { connector });
    await forbidContinuing(tx, connector);
    await connectors.forgetHashes(tx, connector);
    await tx.run(
      `UPDATE _sync_connectors SET base_url = :baseUrl, connector_id = :connectorId WHERE connector = :connector`,
      { connector, baseUrl, connectorId },
    );
    const adopted = `UPDATE _sync_tables SET adopted_at = :now WHERE connector = :connector`;
    await tx.run(adopted, { connector, now });
    const from = { baseUrl: stored.baseUrl, connectorId: stored.connectorId };
    noteAction(tx, ledger, { action: 'adopt', connector, detail: { baseUrl, connectorId, from } });
  };
  await connectors.holdingFor('repair', ledger, connector, async (taken) => await outsideRun(taken, repair));
}

/** Keys of each kind, entity and batch. */
const mostNamed = 100;

/**
 * Reverts the changes of run `of` to up to `limit` rows of the entity, after row `after`: stored rows are tombstoned,
 * tombstoned rows are live again, and changed rows get the content of their earlier version. If the run has stored or
 * changed anything of the entity, its listings are read again in full. Repeated calls find the remaining rows.
 */
export async function undo(
  commit: Commit,
  of: RunId,
  { entity, after, limit }: Readonly<Record<'after' | 'limit', number>> & { readonly entity: EntityName },
) {
  const { ledger, current, stamp, tx } = commit;
  const { connector } = commit;
  const table = current.tables.get(entity);
  if (table === undefined) throw misfitError(entity, 'the plan has no table for it');
  const run = await undoneRun(tx, { connector, entity }, of);
  if (after === 0 && run.written > 0) {
    const what = { withData: false, now: stamp.now };
    await connectors.readAgain({ tx, records: ledger.records, connector, what }, [entity]);
  }
  const changed = await table.changedBy(tx, run, after, limit);
  const numbers = changed.map(({ row }) => row);
  const keyed = await table.rows(tx, numbers);
  const rows = changed.map((one) => ({ ...one, keyText: keyed.get(one.row)?.keyText ?? '' }));
  const ways = grouped(rows, (one) => undoOf(one, run));
  const going = ways.get('delete') ?? [];
  const deleted = going.map(({ row, keyText }) => ({ row, keyText, permission: 'allowed' as const }));
  await deleteRows(commit, entity, deleted);
  const revived = ways.get('revive') ?? [];
  const restored = ways.get('restore') ?? [];
  await putBack(commit, { entity, table }, { revived, restored });
  const kept = ways.get('keep') ?? [];
  return {
    deleted: going.length,
    revived: revived.length,
    restored: restored.length,
    /** Rows that the run has changed, without a version from before: the next run reads them again. */
    kept: {
      rows: kept.length,
      /** Key texts, of the first ones. */
      keys: kept.slice(0, mostNamed).map(({ keyText }) => keyText),
    },
    /** Number of the last row; null: no rows remain. */
    next: changed.length < limit ? null : (changed.at(-1)?.row ?? null),
  };
}

/** Action on a row that this run was the last to change. */
function undoOf(
  { row, deletedAt, version = null, wasDeletedAt = null, isSame }: ChangedRow,
  { from, through }: UndoneRun,
): 'delete' | 'revive' | 'restore' | 'keep' | 'nothing' {
  const isNew = row > from && row <= through;
  if (isNew || wasDeletedAt !== null) return deletedAt === null ? 'delete' : 'nothing';
  if (version !== null && isSame === false) return 'restore';
  if (deletedAt !== null) return 'revive';
  return version === null ? 'keep' : 'nothing';
}

type Rows = readonly (ChangedRow & { readonly keyText: string })[];

async function putBack(
  commit: Commit,
  { entity, table }: { readonly entity: EntityName; readonly table: RecordTable },
  { revived, restored }: { readonly revived: Rows; readonly restored: Rows },
): Promise<void> {
  if (revived.length + restored.length === 0) return;
  const { current, stamp, tx } = commit;
  const { connector } = commit;
  const rows = revived.map(({ row }) => row);
  await table.revive(tx, rows, stamp);
  await table.restore(tx, restored, stamp);
  const back = [...revived, ...restored].filter(({ deletedAt }) => deletedAt !== null);
  const keyTexts = back.map(({ keyText }) => keyText);
  await giveBackBelow(commit, entity, keyTexts);
  await beginFiles(tx, { connector, entity }, keyTexts);
  const numbers = await tableNumbers(tx, { connector, entities: [entity] });
  const chain = { origin: current.origin, now: stamp.now, numbers };
  noteStored(tx, connector, [{ entity, inserted: 0, revived: back.length }], chain);
}

/** Walks the partitions below records that are live again. */
async function giveBackBelow(
  { connector, current, stamp, tx }: Commit,
  entity: EntityName,
  keyTexts: readonly string[],
): Promise<void> {
  const below = { connector, entity, keyHashes: keyTexts.map(textHash) };
  await transitions.giveBack(tx, { ...below, origin: current.origin, now: stamp.now });
}

type UndoneRun = Awaited<ReturnType<typeof undoneRun>>;

/**
 * Range of rows that the run has stored: after `from` up to `through`. Row numbers are never reused, and one run at a
 * time assigns them, so these come before the rows of later runs. `_sync_counts` is written with the rows. `written`:
 * records that it has stored or changed.
 */
async function undoneRun(tx: Tx, of: OfEntity, run: RunId) {
  const found = await tx.first<
    Readonly<Record<'inserted' | 'updated' | 'through', number>> & { readonly startedAt: Instant }
  >(
    `SELECT own.started_at, coalesce(counted.inserted, 0) AS inserted, coalesce(counted.updated, 0) AS updated,
       stored.last_row - coalesce((
         SELECT CAST(sum(later.inserted) AS bigint)
         FROM _sync_runs AS newer JOIN _sync_counts AS later ON later.run = newer.run
         WHERE newer.connector = own.connector AND newer.number > own.number AND later.entity = stored.entity), 0) AS through
     FROM _sync_runs AS own JOIN _sync_tables AS stored ON stored.connector = own.connector
       LEFT JOIN _sync_counts AS counted ON counted.run = own.run AND counted.entity = stored.entity
     WHERE own.run = :run AND own.connector = :connector AND stored.entity = :entity`,
    { ...of, run },
  );
  const { startedAt = instant(0), inserted = 0, updated = 0, through = 0 } = found ?? {};
  return { run, startedAt, from: through - inserted, through, written: inserted + updated };
}

interface Removal {
  readonly holder: Holder;
  readonly before: () => Promise<void>;
}

/**
 * Removes the connector with all its stored data, except the noted actions of people and the number of its newest
 * change. `before` is awaited while the connector is held and all of it is still there. Rows go first, as in a reset of
 * every entity: after a kill in between, the same call removes the rest. Throws `ConnectorBusyError`.
 */
async function remove(ledger: Ledger, connector: ConnectorName, { holder, before }: Removal): Promise<void> {
  const { records } = ledger;
  await connectors.holding(ledger, connector, { holder }, async (taken) => {
    await before();
    const detail = await outsideRun(taken, async (tx) => {
      const ofCopy = 'SELECT entities FROM _sync_copies WHERE connector = :connector';
      const copied = parseNames((await cellOf<string>(tx, ofCopy, { connector })) ?? '[]');
      // `as`: names of entities that this sink has written.
      const known = new Set([...(copied as EntityName[]), ...(await knownEntities(tx, connector))]);
      const what = { withData: true, now: instant(ledger.clock.now()) };
      const { rows } = await connectors.resetEntity({ tx, records, connector, what }, [...known]);
      await connectors.clearFacts(tx, '_sync_copies', connector);
      return { entities: known.size, rows };
    });
    await ledger.lines?.tidy(taken, null);
    await outsideRun(taken, async (tx) => {
      await connectors.forgetConnector(tx, connector, ['_sync_pauses', '_sync_outbox']);
      noteAction(tx, ledger, { action: 'remove', connector, detail });
    });
  });
}
