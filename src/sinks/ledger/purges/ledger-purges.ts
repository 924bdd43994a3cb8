import { instant, type Instant } from '../../../core/clock.ts';
import { grouped, knownOrMade } from '../../../core/grouped.ts';
import {
  isJsonObject,
  memberOf,
  type JsonObject,
  type JsonValue,
  readJsonIfWhole,
  writeJson,
} from '../../../core/json.ts';
import { keyPartsOf, type ColumnValue, type EntityTable } from '../../../core/records.ts';
import type { ConnectorName, EntityName, OfEntity } from '../../../core/names.ts';
import { usage, SyncError } from '../../../core/errors.ts';
import { type Values, quoted, textHash, cellOf, columnOf, type Tx } from '../../../sql/database.ts';
import {
  refusedName,
  type ExpireRequest,
  type PurgedKeys,
  type PurgedOf,
  type PurgeRequest,
  type PurgeWork,
  type DueOf,
  type ExpiredOf,
  type Retention,
  type LeftStep,
  type PurgeStep,
} from '../../requests.ts';
import { keyedColumns, keyedRow, type KeyedCells } from '../../records/mark-rows.ts';
import { parseReport } from '../../stored-json.ts';
import { holdingFor, storedIdentity } from '../held-connectors.ts';
import { dropShared, forgetRows, leavePlaces, otherPlaces } from '../deletes/noted-rows.ts';
import { noteAction } from '../noted-actions.ts';
import type { Taken, KeyedRow, RowOwner, RewrittenLines, RecordTables } from '../driver.ts';
import { outsideRun, type Ledger } from '../ledger.ts';
import { transitions } from '../partitions/transitions.ts';
import { dropJournals } from '../runs/run-chains.ts';
import {
  renewTable,
  openStoredTable,
  storedTable,
  knownTable,
  countEndedVersions,
  countVersions,
  deleteEndedVersions,
  versionedEntities,
} from '../tables.ts';
import * as purgeNotes from './purge-notes.ts';
import { versionsName } from '../../records/own-names.ts';

/** Records that a transaction removes, without those below them. */
const keysAtOnce = 500;

/** Removes records for good, with all that the sink holds of them and of the records below them. */
export function ledgerPurges(ledger: Ledger) {
  return {
    /** Counts the data that a purge of these records would remove. Takes no lock and writes nothing. */
    look: async (connector: ConnectorName, of: PurgeRequest['of']): Promise<readonly PurgedOf[]> =>
      await ledger.db.read(async (tx) => {
        const purging = { tx, records: ledger.records, connector };
        const found: FoundRecords = {
          asked: of,
          of: new Map(),
          joins: await purgeNotes.readJoinsBelow(tx, connector),
        };
        for (const asked of of) if (asked.keyTexts.length > 0) await findBelow(purging, found, asked);
        const chosen = new Set(found.of.keys());
        for (const asked of of) if (asked.keyTexts.length === 0) await findBelow(purging, found, asked);
        const counts = (await lookAt(purging, found)).map((one) => one.counts);
        return counts.filter(({ entity, quarantined }) => chosen.has(entity) || quarantined > 0);
      }),
    /**
     * Removes the records, batch by batch, each in one transaction with the notes that keep the next sync from storing
     * them again. Repeated after a kill it removes the rest. Takes the connector. Throws `ConnectorBusyError`, and
     * USAGE where the sink holds nothing of the connector.
     */
    purge: async (connector: ConnectorName, request: PurgeRequest) =>
      await holdingFor('purge', ledger, connector, async (taken) => await purge(ledger, taken, request)),
    /**
     * Completes unfinished steps of purges: rewrites lines and gives freed space back. Returns the steps that could not
     * be done now, with the reason. Takes the connector only where there is something to do.
     */
    complete: async (connector: ConnectorName) => {
      const left = await ledger.db.read(async (tx) => await purgeNotes.readSteps(tx, connector));
      if (left.length === 0) return [];
      return await holdingFor('purge', ledger, connector, (taken) => completeSteps(ledger, taken));
    },
    /** Removes this work from the notes. Work that a purge has noted meanwhile stays. Takes no lock. */
    noteDone: async (work: readonly PurgeWork[]) =>
      await ledger.db.transact(async (tx) => await purgeNotes.dropWork(tx, work)),
    /** Counts the data that `expire` would remove. Takes no lock and writes nothing. */
    expired: async (connector: ConnectorName, asked: Pick<ExpireRequest, 'entities' | 'isAsked'>) =>
      await countExpired(ledger, connector, asked),
    /** Removes expired data. Takes the connector. Throws `ConnectorBusyError`. */
    expire: async (connector: ConnectorName, asked: ExpireRequest) =>
      await holdingFor('purge', ledger, connector, async (taken) => await expireRows(ledger, taken, asked)),
  };
}

async function purge(ledger: Ledger, taken: Taken, request: PurgeRequest) {
  const { connector } = taken;
  const { who } = ledger;
  const at = instant(ledger.clock.now());
  const macOf = await outsideRun(taken, async (tx) => {
    if ((await storedIdentity(tx, connector)) === undefined) {
      throw usage(`The sink holds nothing of connector "${connector}", so there is nothing to purge.`);
    }
    return await purgeNotes.ensureMac(tx, connector);
  });
  const counts: PurgedOf[] = [];
  const noted = new Set<string>();
  for (const asked of request.of) {
    const of = await purgeOf(ledger, taken, { ...request, ...asked, at, macOf });
    counts.push(...of.counts);
    for (const mac of of.noted) noted.add(mac);
  }
  // Also where nothing was stored: published data may contain the record.
  const entities = [
    ...new Set([...request.of.map(({ entity }) => entity), ...counts.map((one) => one.entity)]),
  ];
  const steps = { connector, entities, targets: request.targets };
  await outsideRun(taken, async (tx) => await purgeNotes.noteSteps(tx, ledger, steps));
  const left = await completeSteps(ledger, taken);
  return {
    at,
    who,
    entities: addUpPurged(counts),
    /** Records that were noted: those asked for, and those below them that were stored. */
    records: noted.size,
    left,
  };
}

type Asked = PurgedKeys &
  Omit<PurgeRequest, 'of'> & { readonly at: Instant; readonly macOf: purgeNotes.RecordMac };

/** Purges records of one entity and everything below them. Notes the steps that follow as work. */
async function purgeOf(ledger: Ledger, taken: Taken, request: Asked) {
  const { connector } = taken;
  const { records, who } = ledger;
  const { entity, keyTexts, canReturn, at, macOf } = request;
  const counts: PurgedOf[] = [];
  const noted = new Set<string>();
  const asked = new Set(keyTexts);
  for (const batch of batchesOf(request)) {
    request.signal.throwIfAborted();
    // Files are removed before their rows: a repeated purge finds the files by the rows.
    const files = await taken.read(async (tx) => {
      const { of } = await findRecords({ tx, records, connector }, batch);
      const ofEach = [...of.values()].map(async ({ entity: name, keyTexts: keys }) =>
        (await filesOf(tx, { connector, entity: name }, keys)).map((file) => ({ of: name, file })),
      );
      return (await Promise.all(ofEach)).flat();
    });
    for (const { of, file } of files) await request.removeFile(of, file);
    const removed = await outsideRun(taken, async (tx) => {
      const purging = { tx, records, connector };
      const found = await findRecords(purging, batch);
      const of = await removeFound(purging, found);
      const named = [...found.of.values()].flatMap((one) =>
        [...one.keyTexts].map((name) => ({ entity: one.entity, name, isAsked: asked.has(name) })),
      );
      const refused = of.flatMap((one) =>
        one.refused.map((name) => ({ entity: one.entity, name, isAsked: true })),
      );
      const notes = [...named, ...refused].map((one) => ({
        entity: one.entity,
        mac: Buffer.from(macOf(one.entity, one.name), 'hex'),
        asked: Number(one.entity === entity && one.isAsked),
      }));
      const seq = await ledger.newestSeq(tx, connector);
      await purgeNotes.writeNotes(tx, { connector, notes, seq, at, who, canReturn });
      const touched = of.filter((one) => one.rows + one.quarantined + one.listings + one.files > 0);
      const entities = touched.map((one) => one.entity);
      await purgeNotes.noteSteps(
        tx,
        ledger,
        { connector, entities, targets: request.targets },
        ownSteps(ledger),
      );
      return { of, notes };
    });
    // Without chosen keys, an entity is reported only for its quarantined records.
    counts.push(...removed.of.filter((one) => batch.keyTexts.length > 0 || one.quarantined > 0));
    for (const { mac } of removed.notes) noted.add(mac.toString('hex'));
  }
  const rows = counts.reduce((sum, one) => sum + one.rows, 0);
  const detail = { records: noted.size, rows, canReturn };
  if (noted.size === 0) return { counts, noted };
  await outsideRun(taken, async (tx) =>
    Promise.resolve(noteAction(tx, ledger, { action: 'purge', connector, entity, detail })),
  );
  return { counts, noted };
}

/** Sums per entity, in the order in which the entities first come. */
function addUpPurged(counts: readonly PurgedOf[]): readonly PurgedOf[] {
  return [...grouped(counts, ({ entity }) => entity)].map(([entity, all]) => {
    const sum = (of: (one: PurgedOf) => number): number => all.reduce((total, one) => total + of(one), 0);
    return {
      entity,
      rows: sum(({ rows }) => rows),
      quarantined: sum(({ quarantined }) => quarantined),
      files: sum(({ files }) => files),
      listings: sum(({ listings }) => listings),
    };
  });
}

/** Splits the keys into batches. The first batch also takes the quarantined records. */
function* batchesOf({ entity, keyTexts, isRefusedMeant }: PurgedKeys): Generator<PurgedKeys> {
  const end = Math.max(keyTexts.length, isRefusedMeant === undefined ? 0 : 1);
  for (let at = 0; at < end; at += keysAtOnce) {
    const some = keyTexts.slice(at, at + keysAtOnce);
    yield { entity, keyTexts: some, isRefusedMeant: at === 0 ? isRefusedMeant : undefined };
  }
}

/** Data of one entity that a purge removes. */
interface FoundOf {
  readonly entity: EntityName;
  /** Null: nothing of it was ever stored. */
  readonly table: EntityTable | null;
  readonly rows: Map<number, KeyedRow>;
  /** Keys of the rows, and of requested records that are not stored. */
  readonly keyTexts: Set<string>;
  /** Listings of the entity that purged records have led to. */
  readonly listings: number[];
  /** Rows that another listing shows too: they stay, and belong to that. */
  readonly moved: RowOwner[];
}

interface FoundRecords {
  readonly asked: readonly PurgedKeys[];
  readonly of: Map<EntityName, FoundOf>;
  readonly joins: readonly purgeNotes.JoinBelow[];
}

async function findRecords(purging: PurgingTx, asked: PurgedKeys): Promise<FoundRecords> {
  const joins = await purgeNotes.readJoinsBelow(purging.tx, purging.connector);
  return await findBelow(purging, { asked: [asked], of: new Map(), joins }, asked);
}

/**
 * Adds the records with these keys and all that belongs to them: elements that were made of them, listings that they
 * have led to with the rows of these, at any depth.
 */
async function findBelow(purging: PurgingTx, all: FoundRecords, { entity, keyTexts }: PurgedKeys) {
  const { tx, records, connector } = purging;
  const { of: found, joins } = all;
  const foundOf = async (name: EntityName): Promise<FoundOf> => {
    const table = found.get(name)?.table ?? (await storedTable(tx, { connector, entity: name })) ?? null;
    const none = { rows: new Map(), keyTexts: new Set<string>(), listings: [], moved: [] };
    return knownOrMade(found, name, () => ({ entity: name, table, ...none }));
  };
  const root = await foundOf(entity);
  for (const keyText of keyTexts) root.keyTexts.add(keyText);
  const { table } = root;
  const stored =
    table && (await records.open({ connector, table, stored: table.columns }).rowsOf(tx, keyTexts));
  for (const row of stored?.values() ?? []) root.rows.set(row.row, row);
  const removed = new Set([...found.values()].flatMap(({ listings }) => listings));
  let open: readonly Level[] = [{ entity, keyTexts, rows: [...root.rows.keys()] }];
  while (open.length > 0) {
    const below = new Map<FoundOf, KeyedRow[]>();
    const add = async (child: FoundOf, from: string, values: Values): Promise<void> => {
      if (child.table === null) return;
      const { table: of } = child;
      const name = quoted(records.tableName(connector, of.entity));
      const sql = `SELECT ${keyedColumns(of)} FROM ${name} AS t ${from}`;
      const rows = (await tx.rows<KeyedCells>(sql, values)).map((cells) => keyedRow(cells, of));
      knownOrMade(below, child, () => []).push(...rows);
    };
    for (const level of open) {
      const listings = await listingsBelow(purging, level, removed);
      for (const [name, ofEntity] of grouped(listings, (one) => one.entity)) {
        const child = await foundOf(name);
        const owners = ofEntity.map(({ id }) => id);
        child.listings.push(...owners);
        await add(child, 'WHERE t._partition IN {owners bigint}', { owners });
      }
      for (const { entity: name, parent, columns } of joins.filter((join) => join.parent === level.entity)) {
        const [child, above] = [await foundOf(name), await foundOf(parent)];
        if (above.table === null || level.rows.length === 0) continue;
        const { key } = above.table;
        const on = columns.map((column, index) => `t.${quoted(column)} = p.${quoted(key[index] ?? '')}`);
        const join = `JOIN ${quoted(records.tableName(connector, parent))} AS p ON ${on.join(' AND ')}`;
        await add(child, `${join} WHERE p._row IN {rows bigint}`, { rows: level.rows });
      }
    }
    const next: Level[] = [];
    for (const [one, rows] of below) {
      const fresh = [...new Map(rows.map((row) => [row.row, row])).values()].filter(
        ({ row }) => !one.rows.has(row),
      );
      const going = await takeRows(purging, one, fresh, removed);
      if (going.length === 0) continue;
      const keys = going.map(({ keyText }) => keyText);
      next.push({ entity: one.entity, keyTexts: keys, rows: going.map(({ row }) => row) });
    }
    open = next;
  }
  return all;
}

/** Enters the rows that go, and gives them: those that a listing shows which stays move to it. */
async function takeRows(
  { tx, connector }: PurgingTx,
  of: FoundOf,
  rows: readonly KeyedRow[],
  removed: ReadonlySet<number>,
): Promise<readonly KeyedRow[]> {
  const numbers = rows.map(({ row }) => row);
  const places = await otherPlaces(tx, { connector, entity: of.entity }, numbers);
  const going: KeyedRow[] = [];
  for (const stored of rows) {
    const { row, owner, keyText } = stored;
    const isOwned = owner !== null && removed.has(owner);
    const staying = isOwned ? places.get(row)?.find(({ partition }) => !removed.has(partition)) : undefined;
    if (staying !== undefined) {
      of.moved.push({ row, owner: staying.partition });
      continue;
    }
    going.push(stored);
    of.rows.set(row, stored);
    of.keyTexts.add(keyText);
  }
  return going;
}

interface Level {
  readonly entity: EntityName;
  readonly keyTexts: readonly string[];
  readonly rows: readonly number[];
}

interface Listing {
  readonly id: number;
  readonly entity: EntityName;
}

/** In any state, of backfills too, with listings inside of them. `removed`: all that were found so far. */
async function listingsBelow(
  { tx, connector }: PurgingTx,
  { entity, keyTexts }: Level,
  removed: Set<number>,
): Promise<readonly Listing[]> {
  const all: Listing[] = [];
  let found = await tx.rows<Listing>(
    `SELECT id, entity FROM _sync_partitions {index _sync_partitions_parent}
     WHERE connector = :connector AND parent_entity = :entity AND parent_hash IN {keyHashes bytea}`,
    { connector, entity, keyHashes: keyTexts.map(textHash) },
  );
  for (;;) {
    const fresh = found.filter(({ id }) => !removed.has(id));
    if (fresh.length === 0) return all;
    all.push(...fresh);
    const ids = fresh.map(({ id }) => id);
    for (const id of ids) removed.add(id);
    found = await tx.rows<Listing>(
      `SELECT id, entity FROM _sync_partitions WHERE connector = :connector AND tree IN {ids bigint}
       UNION SELECT id, entity FROM _sync_partitions
       WHERE connector = :connector AND backfill <> '' AND base IN {ids bigint}`,
      { connector, ids },
    );
  }
}

/** A quarantined record that is removed. `name`: the name in its purge note; null: its key is noted. */
interface FoundRefused {
  readonly id: number;
  readonly name: string | null;
}

/**
 * Records in quarantine that are meant, or are, or belong to, records that go. A refused record may lack a part of its
 * key that its listing fills in: it is recognized by the parts that it has. One that cannot be read is taken where it
 * holds all texts of a key.
 */
async function findQuarantined(purging: PurgingTx, { asked, of, joins }: FoundRecords, one: FoundOf) {
  const { tx, connector } = purging;
  const key = one.table?.key ?? [];
  const wanted = [
    matcherOf(key, one.keyTexts),
    ...joins
      .filter((join) => join.entity === one.entity)
      .map(({ parent, columns }) => matcherOf(columns, of.get(parent)?.keyTexts ?? new Set())),
  ];
  const isKnown = (value: JsonValue | undefined): boolean =>
    isJsonObject(value) && key.every((name) => typeof (memberOf(value, name) ?? {}) !== 'object');
  const texts = [...one.keyTexts].map((text) =>
    (keyPartsOf(text, key.length) ?? []).map((part) =>
      typeof part === 'string' ? JSON.stringify(part) : String(part),
    ),
  );
  const found: FoundRefused[] = [];
  const isMeant = (record: string): boolean =>
    asked.some(({ entity, isRefusedMeant }) => entity === one.entity && isRefusedMeant?.(record) === true);
  for (let after = 0; ;) {
    const rows = await tx.rows<{ readonly id: number; readonly record: string }>(
      `SELECT id, record FROM _sync_quarantine
       WHERE connector = :connector AND entity = :entity AND id > :after ORDER BY id LIMIT :limit`,
      { connector, entity: one.entity, after, limit: keysAtOnce },
    );
    for (const { id, record } of rows) {
      const value = readJsonIfWhole(record);
      const isFound = isJsonObject(value)
        ? wanted.some((matches) => matches(value))
        : texts.some((parts) => parts.length > 0 && parts.every((part) => record.includes(part)));
      if (!isFound && !isMeant(record)) continue;
      found.push({ id, name: isFound && isKnown(value) ? null : refusedName(record) });
    }
    const last = rows.at(-1);
    if (last === undefined || rows.length < keysAtOnce) return found;
    after = last.id;
  }
}

/**
 * Matches records that have these columns of one of the keys, as far as they have any; numbers and texts compare alike.
 */
function matcherOf(columns: readonly string[], keyTexts: ReadonlySet<string>) {
  const keys = [...keyTexts].flatMap((text) => {
    const parts = keyPartsOf(text, columns.length);
    return parts === null ? [] : [parts];
  });
  /** Texts of all keys, by the parts that a record has. */
  const textsOfKeys = new Map<string, ReadonlySet<string>>();
  return (record: JsonObject): boolean => {
    const parts = columns.map((name) => memberOf(record, name) ?? null);
    const has = [...parts.keys()].filter((index) => parts[index] !== null);
    if (has.length === 0) return false;
    const textOf = (key: readonly (ColumnValue | JsonValue)[]): string =>
      JSON.stringify(has.map((index) => partText(key[index] ?? null)));
    return knownOrMade(textsOfKeys, has.join(), () => new Set(keys.map(textOf))).has(textOf(parts));
  };
}

/** A refused record may have an object in its key, which a person gives as JSON. */
function partText(part: ColumnValue | JsonValue): string {
  const isWritten = typeof part === 'string' && /^\s*[[{]/.test(part);
  const value = isWritten ? (readJsonIfWhole(part) ?? part) : part;
  return typeof value === 'object' && value !== null ? writeJson(value) : String(value);
}

async function lookAt(purging: PurgingTx, found: FoundRecords) {
  const looks: { readonly counts: PurgedOf; readonly quarantined: readonly FoundRefused[] }[] = [];
  for (const one of found.of.values()) {
    const quarantined = await findQuarantined(purging, found, one);
    const counts = {
      entity: one.entity,
      rows: one.rows.size,
      quarantined: quarantined.length,
      files: (await filesOf(purging.tx, { connector: purging.connector, entity: one.entity }, one.keyTexts))
        .length,
      listings: one.listings.length,
    };
    looks.push({ counts, quarantined });
  }
  return looks;
}

/**
 * Removes the found data, with all that the ledger holds of it; returns counts, and the note names of refused records
 * without a known key. The table gets another id, because readers that follow its rows by change numbers would miss the
 * removed ones.
 */
async function removeFound(purging: PurgingTx, found: FoundRecords) {
  const looks = await lookAt(purging, found);
  const { tx, records, connector } = purging;
  for (const { entity, table, rows, moved, keyTexts } of found.of.values()) {
    const of = { connector, entity };
    if (table !== null) records.open({ connector, table, stored: table.columns }).setOwners(tx, moved);
    const left = moved.map(({ row, owner }) => ({ row, partition: owner }));
    await leavePlaces(tx, of, left);
    if (rows.size > 0) {
      await removeForGood(purging, entity, [...rows.values()]);
      await renewTable(tx, of);
    }
    await forgetFiles(tx, of, keyTexts);
    // A position may name the record that a walk met last: the walk begins again.
    await transitions.walkFromStart(tx, of);
  }
  await tx.run('DELETE FROM _sync_quarantine WHERE connector = :connector AND id IN {ids bigint}', {
    connector,
    ids: looks.flatMap(({ quarantined }) => quarantined.map(({ id }) => id)),
  });
  const ids = [...found.of.values()].flatMap(({ listings }) => listings);
  await dropShared(tx, { ids });
  const missing = 'DELETE FROM _sync_missing WHERE connector = :connector AND partition IN {ids bigint}';
  await tx.run(missing, { connector, ids });
  await transitions.purge(tx, { ids });
  await forgetNames(purging, found);
  return looks.map(({ counts, quarantined }) => ({
    ...counts,
    refused: quarantined.flatMap(({ name }) => name ?? []),
  }));
}

/** Keys in notes of refetches and in reports of failed listings: those of other records go with them. */
async function forgetNames({ tx, connector }: PurgingTx, { of }: FoundRecords): Promise<void> {
  await tx.run(
    `UPDATE _sync_actions SET detail = '{}'
     WHERE connector = :connector AND action = 'refetch' AND entity IN {entities text}`,
    { connector, entities: [...of.keys()] },
  );
  // Words of the service in a journal may name a person.
  await dropJournals(tx, { connector, before: null });
  if ([...of.values()].every(({ listings }) => listings.length === 0)) return;
  const reports = await tx.rows<{ readonly run: string; readonly report: string }>(
    `SELECT run, report FROM _sync_runs WHERE connector = :connector AND report LIKE '%"params":{"%'`,
    { connector },
  );
  for (const { run, report: text } of reports) {
    const report = parseReport(text);
    const failures = report.failures.filter(({ params }) => Object.keys(params).length === 0);
    const nameless = {
      ...report,
      failures,
      failuresOmitted: report.failuresOmitted + report.failures.length - failures.length,
      partMissing: report.partMissing.map((one) => ({ ...one, params: {} })),
    };
    const sql = 'UPDATE _sync_runs SET report = :report WHERE run = :run';
    await tx.run(sql, { run, report: writeJson(nameless) });
  }
}

const rowsAtOnce = 500;
const versionsAtOnce = 2_000;
const dayMs = 24 * 60 * 60 * 1_000;

/** Counts expired data of the entities that were not checked within a day, or of all where `isAsked`. */
async function countExpired(
  ledger: Ledger,
  connector: ConnectorName,
  { entities, isAsked }: Pick<ExpireRequest, 'entities' | 'isAsked'>,
): Promise<readonly DueOf[]> {
  const counts: DueOf[] = [];
  for (const retention of entities) {
    const due = await ledger.db.read(async (tx) => {
      const expiring = await openExpiring(tx, ledger, connector, retention);
      if (expiring === null) return null;
      const sql = `SELECT checked_at FROM _sync_retained WHERE ${ofTable}`;
      const checkedAt = await cellOf<Instant | null>(tx, sql, { ...expiring.of });
      const isFresh = typeof checkedAt === 'string' && Date.parse(checkedAt) > ledger.clock.now() - dayMs;
      return isFresh && !isAsked ? null : await countDue(tx, expiring);
    });
    if (due !== null) counts.push(due);
  }
  return counts;
}

/** Totals, which the guards compare with, include deleted rows and current versions. */
async function countDue(tx: Tx, expiring: Expiring): Promise<DueOf> {
  const { ledger, retention, of } = expiring;
  const { deletedBefore, publishedThrough: through, quarantinedBefore } = retention;
  const count = async (sql: string, values: Values): Promise<number> =>
    (await cellOf<number>(tx, `SELECT ${sql}`, { ...of, ...values })) ?? 0;
  const before = expiring.versionsBefore;
  // Nothing is older than null.
  const expired = {
    entity: of.entity,
    rows: await count(`count(*) ${isOld(expiring)}`, { before: deletedBefore, through }),
    quarantined: await count(`count(*) ${isOldRefused}`, { before: quarantinedBefore }),
    files: (await oldFiles(tx, expiring)).length,
    versions: before === null ? 0 : await countEndedVersions(tx, ledger.records, of, before),
  };
  const rows = await count(`rows FROM _sync_tables WHERE ${ofTable}`, {});
  const files = await count(`count(file) FROM _sync_downloads WHERE ${ofTable}`, {});
  const closed = expired.versions === 0 ? 0 : await countVersions(tx, ledger.records, of);
  return { ...expired, of: { rows, files, versions: rows + closed } };
}

/** Removes it, batch by batch, each in one transaction: after a kill the next one continues. */
async function expireRows(ledger: Ledger, taken: Taken, { entities, removeFile, signal }: ExpireRequest) {
  const expired: ExpiredOf[] = [];
  // Before its row goes, a delete becomes a line that readers of files find.
  await ledger.lines?.write(taken);
  const transact = async <Result>(work: (tx: Tx) => Promise<Result>): Promise<Result> =>
    await outsideRun(taken, work, {});
  for (const retention of entities) {
    const expiring = await taken.read((tx) => openExpiring(tx, ledger, taken.connector, retention));
    if (expiring === null) continue;
    const { of, versionsBefore: before } = expiring;
    const counts = { entity: of.entity, rows: 0, quarantined: 0, files: 0, versions: 0 };
    const removeAll = async (files: readonly string[]): Promise<void> => {
      for (const file of files) await removeFile(of.entity, file);
      counts.files += files.length;
    };
    for (;;) {
      signal.throwIfAborted();
      const old = await taken.read(async (tx) => await oldRows(tx, expiring));
      await removeAll(old.files);
      await transact(async (tx) => await removeRows(tx, expiring, old.rows));
      counts.rows += old.rows.length;
      if (old.rows.length < rowsAtOnce) break;
    }
    if (before !== null) {
      for (let deleted = -1; deleted !== 0; counts.versions += deleted) {
        signal.throwIfAborted();
        // The oldest ones first.
        const what = { before, limit: versionsAtOnce };
        deleted = await transact(async (tx) => await deleteEndedVersions(tx, ledger.records, of, what));
      }
    }
    const files = await taken.read(async (tx) => await oldFiles(tx, expiring));
    await removeAll(files.map(({ file }) => file));
    counts.quarantined = await transact(async (tx) => await noteChecked(tx, expiring, files));
    expired.push(counts);
  }
  await removeNotedLines(ledger, taken, signal);
  return expired;
}

const ofTable = 'connector = :connector AND entity = :entity';
const isOldRefused = `FROM _sync_quarantine WHERE ${ofTable} AND last_seen_at < :before`;

/** Table whose data may have expired. */
type Expiring = NonNullable<Awaited<ReturnType<typeof openExpiring>>>;

/** Null where nothing of the entity was ever stored. */
async function openExpiring(tx: Tx, ledger: Ledger, connector: ConnectorName, retention: Retention) {
  const of = { connector, entity: retention.entity };
  const known = await knownTable(tx, of);
  const table = await openStoredTable(tx, ledger.records, of);
  if (known === undefined || table === undefined) return null;
  // Null where nothing of them expires; those that were switched off stay.
  const versionsBefore = known.versions?.isOn === true ? retention.versionsBefore : null;
  return { ledger, of, retention, table, versionsBefore };
}

function isOld({ ledger: { records }, of: { connector, entity } }: Expiring): string {
  return `FROM ${quoted(records.tableName(connector, entity))} WHERE _deleted_at < :before AND _seq <= :through`;
}

/** Tombstones that are old enough and published everywhere, and their files. */
async function oldRows(tx: Tx, expiring: Expiring) {
  const { of, table, retention } = expiring;
  const { deletedBefore: before, publishedThrough: through } = retention;
  if (before === null) return { rows: [], files: [] };
  const sql = `SELECT _row ${isOld(expiring)} ORDER BY _row LIMIT :limit`;
  const numbers = await columnOf<number>(tx, sql, { before, through, limit: rowsAtOnce });
  const rows = [...(await table.rows(tx, numbers)).values()];
  const keyTexts = rows.map(({ keyText }) => keyText);
  return { rows, files: await filesOf(tx, of, keyTexts) };
}

/** Readers of changes after `complete_after` miss no delete. */
async function removeRows(tx: Tx, { ledger, of }: Expiring, rows: readonly KeyedRow[]): Promise<void> {
  if (rows.length === 0) return;
  const { connector, entity } = of;
  const name = quoted(ledger.records.tableName(connector, entity));
  const newest = `SELECT max(_seq) FROM ${name} WHERE _row IN {numbers bigint}`;
  const completeAfter = await cellOf<number>(tx, newest, { numbers: rows.map(({ row }) => row) });
  await removeForGood({ tx, records: ledger.records, connector }, entity, rows);
  const keyTexts = rows.map(({ keyText }) => keyText);
  await forgetFiles(tx, of, keyTexts);
  await tx.run(
    `INSERT INTO _sync_retained AS r (connector, entity, complete_after)
     VALUES (:connector, :entity, :completeAfter)
     ON CONFLICT (connector, entity) DO UPDATE SET complete_after = excluded.complete_after
     WHERE r.complete_after < excluded.complete_after`,
    { ...of, completeAfter: completeAfter ?? 0 },
  );
  const steps = { connector, entities: [entity], targets: [] };
  await purgeNotes.noteSteps(tx, ledger, steps, ledger.lines === undefined ? [] : ['lines']);
}

interface OldFile {
  readonly id: number;
  readonly key: string;
  readonly file: string;
}

/** Files of records that were deleted long enough ago. */
async function oldFiles(tx: Tx, { of, table, retention }: Expiring): Promise<readonly OldFile[]> {
  const { filesBefore } = retention;
  if (filesBefore === null) return [];
  const kept = await tx.rows<OldFile>(
    `SELECT id, key, file FROM _sync_downloads
     WHERE ${ofTable} AND gone = 'tombstoned' AND file IS NOT NULL ORDER BY id`,
    { ...of },
  );
  const keyTexts = kept.map(({ key }) => key);
  const stored = await table.rowsOf(tx, keyTexts);
  return kept.filter(({ key }) => {
    const deletedAt = stored.get(key)?.deletedAt ?? null;
    return deletedAt !== null && deletedAt < filesBefore;
  });
}

/** Forgets these files, and removes old records from the quarantine; gives how many. */
async function noteChecked(tx: Tx, { ledger, of, retention }: Expiring, files: readonly OldFile[]) {
  await tx.run(
    `UPDATE _sync_downloads SET file = NULL, replaced = NULL, bytes = NULL, sha256 = NULL, stored_type = NULL,
       stored_version = NULL, stored_at = NULL, stored_run = NULL
     WHERE connector = :connector AND id IN {ids bigint}`,
    { connector: of.connector, ids: files.map(({ id }) => id) },
  );
  await tx.run(
    `INSERT INTO _sync_retained (connector, entity, complete_after, checked_at, withheld)
     VALUES (:connector, :entity, 0, :at, :withheld)
     ON CONFLICT (connector, entity) DO UPDATE SET checked_at = excluded.checked_at, withheld = excluded.withheld`,
    { ...of, at: instant(ledger.clock.now()), withheld: retention.withheld },
  );
  return await tx.run(`DELETE ${isOldRefused}`, { ...of, before: retention.quarantinedBefore });
}

/** Steps in the sink itself after rows are removed. */
export function ownSteps({ lines }: Pick<Ledger, 'lines'>): readonly PurgeStep[] {
  return lines === undefined ? ['space'] : ['lines', 'space'];
}

/** Rewrites lines first, because that writes to the database whose space is given back. Failed steps stay noted. */
export async function completeSteps(ledger: Ledger, taken: Taken): Promise<readonly LeftStep[]> {
  const { connector } = taken;
  await removeNotedLines(ledger, taken);
  const steps = await taken.read(async (tx) => await purgeNotes.readSteps(tx, connector));
  const space = steps.filter(({ step }) => step === 'space');
  if (space.length === 0) return [];
  try {
    const versioned = await taken.read(async (tx) => await versionedEntities(tx, connector));
    const tables = space.flatMap(({ entity }) => {
      const name = ledger.records.tableName(connector, entity);
      return versioned.has(entity) ? [name, versionsName(name)] : [name];
    });
    await ledger.giveBack(tables);
    await done(taken, space);
    return [];
  } catch (error) {
    if (!(error instanceof SyncError)) throw error;
    return space.map((one) => ({ ...one, why: error.message }));
  }
}

/** Removes lines of rows that a purge, or retention, has removed. */
async function removeNotedLines(ledger: Ledger, taken: Taken, signal?: AbortSignal): Promise<void> {
  const steps = await taken.read(async (tx) => await purgeNotes.readSteps(tx, taken.connector));
  for (const one of steps.filter(({ step }) => step === 'lines')) {
    await removeLines(ledger, taken, one.entity, signal);
    await done(taken, [one]);
  }
}

async function done(taken: Taken, work: readonly PurgeWork[]): Promise<void> {
  await outsideRun(taken, async (tx) => await purgeNotes.dropWork(tx, work));
}

/** Lines of purged records, and of records whose rows are gone. */
async function removeLines(ledger: Ledger, taken: Taken, entity: EntityName, signal?: AbortSignal) {
  const { connector } = taken;
  const { lines } = ledger;
  if (lines === undefined) return;
  const { table, macOf, notes } = await outsideRun(taken, async (tx) => ({
    table: await storedTable(tx, { connector, entity }),
    macOf: await purgeNotes.ensureMac(tx, connector),
    notes: await purgeNotes.readNotes(tx, { connector }),
  }));
  // A mask of its key has removed all of it.
  if (table === undefined) {
    await lines.tidy(taken, [entity]);
    return;
  }
  const seqs = new Map(
    notes.flatMap((note) => (note.entity === entity ? [[note.mac.toString('hex'), note.seq] as const] : [])),
  );
  const line: RewrittenLines['line'] = (written, { keyText, seq }) =>
    seq <= (seqs.get(macOf(entity, keyText)) ?? -1) ? null : written;
  await lines.rewrite({ connector, table, line, signal }, taken);
}

/** Context of a removal. */
interface PurgingTx {
  readonly tx: Tx;
  readonly records: RecordTables;
  readonly connector: ConnectorName;
}

/** Rows of an entity, tombstoned or not, with their versions and all that is noted of them by their numbers. */
async function removeForGood(
  { tx, records, connector }: PurgingTx,
  entity: EntityName,
  rows: readonly Pick<KeyedRow, 'row' | 'deletedAt'>[],
): Promise<void> {
  const of = { connector, entity };
  const numbers = rows.map(({ row }) => row);
  const table = quoted(records.tableName(connector, entity));
  await tx.run(`DELETE FROM ${table} WHERE _row IN {numbers bigint}`, { numbers });
  await forgetRows(tx, of, numbers);
  // A later purge would not find the versions without their row.
  if ((await versionedEntities(tx, connector)).has(entity)) {
    const versions = quoted(versionsName(records.tableName(connector, entity)));
    await tx.run(`DELETE FROM ${versions} WHERE _row IN {numbers bigint}`, { numbers });
  }
  await tx.run(
    `UPDATE _sync_tables SET rows = rows - :rows, deleted = deleted - :deleted
     WHERE connector = :connector AND entity = :entity`,
    { ...of, rows: rows.length, deleted: rows.filter(({ deletedAt }) => deletedAt !== null).length },
  );
}

const ofKeys = `connector = :connector AND entity = :entity AND key_hash IN {keyHashes bytea}`;

/** Files of records that go: names in the folder of downloads. */
export async function filesOf(tx: Tx, of: OfEntity, keyTexts: Iterable<string>): Promise<readonly string[]> {
  const found = await tx.rows<{ readonly file: string | null; readonly replaced: string | null }>(
    `SELECT file, replaced FROM _sync_downloads WHERE ${ofKeys}`,
    { ...of, keyHashes: [...keyTexts].map(textHash) },
  );
  return found.flatMap(({ file, replaced }) => [file, replaced]).filter((file) => file !== null);
}

/** Deletes the facts about these records' files. The files are removed from their folder before. */
async function forgetFiles(tx: Tx, of: OfEntity, keyTexts: Iterable<string>): Promise<void> {
  await tx.run(`DELETE FROM _sync_downloads WHERE ${ofKeys}`, {
    ...of,
    keyHashes: [...keyTexts].map(textHash),
  });
}
