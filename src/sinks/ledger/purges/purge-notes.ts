import { createHmac, randomBytes } from 'node:crypto';
import { instant, type Clock } from '../../../core/clock.ts';
import { knownOrMade } from '../../../core/grouped.ts';
import type { ConnectorName, EntityName } from '../../../core/names.ts';
import { keyTextOf, type PreparedRecord } from '../../../core/records.ts';
import { ask, type Tx } from '../../../sql/database.ts';
import {
  refusedName,
  type PurgeNote,
  type PurgeRequest,
  type PurgeStep,
  type PurgeWork,
} from '../../requests.ts';
import type { RowsOf } from '../../run-report.ts';
import type { PageCommit, RunPlan } from '../../sink.ts';
import { parseColumns, parseDescribed, parseNames } from '../../stored-json.ts';

/** Gives the HMAC-SHA-256 of a record's entity and key, in hex. Without the secret it does not give the key away. */
export type RecordMac = (entity: EntityName, keyText: string) => string;

/** Null where nothing of the connector was ever purged. */
async function readMac(tx: Tx, connector: ConnectorName): Promise<RecordMac | null> {
  const sql = 'SELECT secret FROM _sync_purge_keys WHERE connector = :connector';
  const found = await tx.first<{ readonly secret: string }>(sql, { connector });
  return found === undefined ? null : macWith(found.secret);
}

/** Makes the secret with the first purge of the connector. */
export async function ensureMac(tx: Tx, connector: ConnectorName): Promise<RecordMac> {
  const found = await readMac(tx, connector);
  if (found !== null) return found;
  const secret = randomBytes(32).toString('hex');
  const sql = 'INSERT INTO _sync_purge_keys (connector, secret) VALUES (:connector, :secret)';
  await tx.run(sql, { connector, secret });
  return macWith(secret);
}

function macWith(secret: string): RecordMac {
  const key = Buffer.from(secret, 'hex');
  return (entity, keyText) => createHmac('sha256', key).update(`${entity}\n${keyText}`).digest('hex');
}

interface NoteRow extends PurgeNote {
  readonly entity: EntityName;
  readonly mac: Buffer;
  readonly seq: number;
}

/** Purged records of the connector; null where none ever was. All notes are held in memory. */
export async function readPurgeNotes(tx: Tx, connector: ConnectorName) {
  const macOf = await readMac(tx, connector);
  if (macOf === null) return null;
  const rows = await readNotes(tx, { connector });
  const byEntity = new Map<EntityName, Map<string, PurgeNote>>();
  for (const { entity, mac, at, who, canReturn } of rows) {
    const notes = knownOrMade(byEntity, entity, () => new Map<string, PurgeNote>());
    notes.set(mac.toString('hex'), { at, who, canReturn });
  }
  return {
    count: rows.length,
    noteOf: (entity: EntityName, keyText: string) =>
      byEntity.get(entity)?.get(macOf(entity, keyText)) ?? null,
  };
}

export const readNotes = ask<{ connector: ConnectorName }, NoteRow>(
  `SELECT entity, mac, seq, at, who, can_return FROM _sync_purged WHERE connector = :connector`,
);

interface NewNote extends Pick<NoteRow, 'entity' | 'mac'> {
  /** 1: the record was requested; 0: it lay below a requested record. */
  readonly asked: number;
}

/** Writes notes. Where records may return, so may the records purged with them. */
export async function writeNotes(
  tx: Tx,
  given: PurgeNote & Pick<NoteRow, 'seq'> & { connector: ConnectorName; notes: readonly NewNote[] },
): Promise<void> {
  const { notes, canReturn, ...of } = given;
  if (notes.length === 0) return;
  if (canReturn) {
    await tx.run(
      `UPDATE _sync_purged SET can_return = 1 WHERE connector = :connector AND is_asked = 0 AND at IN
         (SELECT at FROM _sync_purged WHERE connector = :connector AND mac IN {macs bytea})`,
      { connector: of.connector, macs: notes.map(({ mac }) => mac) },
    );
  }
  await tx.run(
    `INSERT INTO _sync_purged (connector, entity, mac, seq, at, who, can_return, is_asked)
     SELECT CAST(:connector AS text), v.entity, v.mac, CAST(:seq AS bigint), CAST(:at AS text), CAST(:who AS text),
       CAST(:canReturn AS integer), v.asked
     FROM {v: entity text, mac bytea, asked integer, n} ORDER BY v.n
     ON CONFLICT (connector, entity, mac) DO UPDATE SET seq = excluded.seq, at = excluded.at, who = excluded.who,
       can_return = excluded.can_return, is_asked = excluded.is_asked`,
    { ...of, canReturn: Number(canReturn), v: notes },
  );
}

/** Rows of `entity` belong to the row of `parent` whose key they carry in `columns`, in the order of that key. */
export type JoinBelow = Awaited<ReturnType<typeof readJoinsBelow>>[number];

type TableTexts = { readonly entity: EntityName } & Readonly<Record<'key' | 'stored' | 'described', string>>;

/** Joins by which records belong to others: elements to their record, records to the one that leads to them. */
export async function readJoinsBelow(tx: Tx, connector: ConnectorName) {
  const rows = await tx.rows<TableTexts>(
    `SELECT entity, key, stored, described FROM _sync_tables WHERE connector = :connector ORDER BY entity`,
    { connector },
  );
  const tables = new Map(
    rows.map(({ entity, key, stored }) => [
      entity,
      {
        key: parseNames(key),
        types: new Map(parseColumns(stored).map(({ name, type }) => [name, type])),
      },
    ]),
  );
  return rows.flatMap(({ entity, described }) =>
    parseDescribed(described).joins.flatMap(({ columns, parent, parentColumns }) => {
      const above = tables.get(parent);
      const own = tables.get(entity);
      if (above === undefined || own === undefined || parentColumns.length !== above.key.length) return [];
      const carried = above.key.map((name) => columns[parentColumns.indexOf(name)] ?? '');
      // Only columns that name one parent by its key, with the same values.
      const isWhole = carried.every((name, index) => {
        const type = own.types.get(name);
        return type !== undefined && type === above.types.get(above.key[index] ?? '');
      });
      return isWhole ? [{ entity, parent, columns: carried }] : [];
    }),
  );
}

/** A page without its purged records; `withheld` counts them. */
export interface WithheldPage extends PageCommit {
  readonly withheld?: readonly RowsOf[];
}

/** Purged records as known to a run. No purge takes place while the run holds the connector. */
export interface Withholding {
  /** The record, or the one that it belongs to by definition, was purged. */
  isPurged(entity: EntityName, record: Pick<PreparedRecord, 'keyText' | 'values'>): boolean;
  /** A note of the record itself that keeps it away. */
  readonly isNoted: (entity: EntityName, keyText: string) => boolean;
}

/** Null where nothing is to be kept away, which costs a run one look-up. */
export async function readWithholding(
  tx: Tx,
  connector: ConnectorName,
  tables: RunPlan['tables'],
): Promise<Withholding | null> {
  const notes = await readPurgeNotes(tx, connector);
  if (notes === null || notes.count === 0) return null;
  const isNoted = (entity: EntityName, keyText: string): boolean =>
    notes.noteOf(entity, keyText)?.canReturn === false;
  const joins = await readJoinsBelow(tx, connector);
  const parentKeys = new Map(
    tables.map(({ entity, columns }) => [
      entity,
      joins
        .filter((join) => join.entity === entity)
        .map(({ parent, columns: names }) => ({
          parent,
          indexes: names.map((name) => columns.findIndex((column) => column.name === name)),
        })),
    ]),
  );
  return {
    isNoted,
    isPurged: (entity, { keyText, values }) =>
      isNoted(entity, keyText) ||
      (parentKeys.get(entity) ?? []).some(({ parent, indexes }) =>
        isNoted(parent, keyTextOf(indexes.map((index) => values[index] ?? null))),
      ),
  };
}

/**
 * Removes purged records from a page, with the partitions that they lead to. The records were met: the walk proves the
 * same as with them, and they count as filtered.
 */
export function withoutPurged(purged: Withholding | null, page: PageCommit): WithheldPage {
  if (purged === null) return page;
  const withheld: RowsOf[] = [];
  const rows = page.rows.map(({ entity, records }) => {
    const kept = records.filter((record) => !purged.isPurged(entity, record));
    if (kept.length < records.length) withheld.push({ entity, rows: records.length - kept.length });
    return { entity, records: kept };
  });
  const refused = page.refused.filter(
    ({ entity, keyText, record }) =>
      (keyText === undefined || !purged.isNoted(entity, keyText)) &&
      !purged.isNoted(entity, refusedName(record)),
  );
  for (const { entity } of page.refused.filter((one) => !refused.includes(one))) {
    withheld.push({ entity, rows: 1 });
  }
  const children = page.children.filter(
    ({ parent }) => parent === null || !purged.isNoted(parent.entity, parent.keyText),
  );
  if (withheld.length === 0 && children.length === page.children.length) return page;
  return { ...page, rows, refused, children, withheld };
}

/** Unfinished purge steps of all connectors, or of `only` these. */
export async function readPurgeWork(tx: Tx, only?: readonly ConnectorName[]): Promise<readonly PurgeWork[]> {
  return await tx.rows<PurgeWork>(
    `SELECT connector, step, entity, since FROM _sync_purge_work
     ${only === undefined ? '' : 'WHERE connector IN {only text}'} ORDER BY connector, step, entity`,
    only === undefined ? {} : { only },
  );
}

/** Unfinished purge steps of the connector in the sink itself. */
export async function readSteps(tx: Tx, connector: ConnectorName): Promise<readonly PurgeWork[]> {
  return (await readPurgeWork(tx, [connector])).filter(({ step }) => step === 'lines' || step === 'space');
}

interface NotedOf extends Pick<PurgeRequest, 'targets'> {
  readonly connector: ConnectorName;
  readonly entities: readonly EntityName[];
}

/** Notes the steps that follow the removal of these entities' rows, in the same transaction. */
export async function noteSteps(
  tx: Tx,
  { clock }: { readonly clock: Clock },
  { connector, targets, ...of }: NotedOf,
  own: readonly PurgeStep[] = [],
): Promise<void> {
  const since = instant(clock.now());
  const steps = [...own, ...targets.map((name): PurgeStep => `target:${name}`)];
  const v = steps.flatMap((step) => of.entities.map((entity) => ({ step, entity })));
  if (v.length === 0) return;
  await tx.run(
    `INSERT INTO _sync_purge_work (connector, step, entity, since)
     SELECT CAST(:connector AS text), v.step, v.entity, CAST(:since AS text)
     FROM {v: step text, entity text, n} ORDER BY v.n
     ON CONFLICT (connector, step, entity) DO UPDATE SET since = excluded.since`,
    { connector, since, v },
  );
}

/** Drops work as it was read: work noted again meanwhile stays. */
export async function dropWork(tx: Tx, work: readonly PurgeWork[]): Promise<void> {
  for (const one of work) {
    await tx.run(
      `DELETE FROM _sync_purge_work
       WHERE connector = :connector AND step = :step AND entity = :entity AND since = :since`,
      { ...one },
    );
  }
}
