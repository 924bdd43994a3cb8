import type { Instant } from '../core/clock.ts';
import type { EntityName } from '../core/names.ts';
import { compileChangeSpan } from '../engine/prepare/change-span.ts';
import type { EntityTarget } from '../settings/choices.ts';
import type { RunSummary } from '../sinks/ledger-reader.ts';
import { checkCopied, openExistingRecords } from '../sinks/registry.ts';
import type { LedgerReader, PartitionHistory, RecordReader, RowHistory } from '../sinks/sink-access.ts';
import { storedFields } from './stored-fields.ts';

/** Why the newest sync met the record, or did not. */
type Reason =
  | { readonly kind: 'no-sync' }
  /** Stored outside a walk, or by a version that did not note the partition. */
  | { readonly kind: 'no-partition' }
  | { readonly kind: 'parent-gone' }
  | { readonly kind: 'set-aside' }
  /** Its listing waits to be read. */
  | { readonly kind: 'due' }
  | { readonly kind: 'not-selected' }
  /** All of its listing was read; `isMet`: it was in it. */
  | { readonly kind: 'full'; readonly isMet: boolean }
  /**
   * The walk requested only the changes of its listing. `isMet` null: unknown, because the row has no readable change
   * value.
   */
  | { readonly kind: 'incremental'; readonly isMet: boolean | null }
  /**
   * Its listing was not read, because the record that leads to it has the change value that it had at the last reading.
   */
  | { readonly kind: 'marker' }
  /** Its listing was not read, because nothing led to it: the listing of its parents was read for changes only. */
  | { readonly kind: 'not-led-to' };

interface Known {
  readonly row: RowHistory;
  /** The run that wrote it last; null where it is past its retention. */
  readonly changedBy: RunSummary | null;
  readonly lastSync: RunSummary | null;
  /** The record's own change value, where the entity has one. */
  readonly changeValue: Instant | null;
}

export type Explanation = NonNullable<Awaited<ReturnType<typeof explanationIn>>>;

/**
 * Explains from one state of the sink. `explanation` null: the key is not stored; `purged` says then when and by whom
 * it was purged, null where it never was.
 */
export async function explainRow(target: EntityTarget, keyText: string, mostChars?: number) {
  await using reader = await openExistingRecords(target.connector.sink);
  return reader === null
    ? { explanation: null, purged: null }
    : await explainIn(reader, target, keyText, mostChars);
}

/** Explains several rows from one state of the sink; null: the key is not stored. */
export async function explainRows(target: EntityTarget, keyTexts: readonly string[]) {
  await using reader = await openExistingRecords(target.connector.sink);
  const found: (Explanation | null)[] = [];
  for (const key of keyTexts) found.push(reader && (await explanationIn(reader, target, key)));
  return found;
}

/** The same in a state that is open. `mostChars`: versions come with so many characters of the values that differ. */
export async function explainIn(
  reader: RecordReader,
  target: EntityTarget,
  keyText: string,
  mostChars?: number,
) {
  const explanation = await explanationIn(reader, target, keyText, mostChars);
  return { explanation, purged: explanation === null ? await purgeNoteIn(reader, target, keyText) : null };
}

/** The note that a record was purged and is not stored; null: there is none. */
export async function purgeNoteIn(reader: RecordReader, { connector, table }: EntityTarget, keyText: string) {
  return (await reader.history.purged(connector.name))?.noteOf(table.entity, keyText) ?? null;
}

async function explanationIn(
  reader: RecordReader,
  { connector, entity, table }: EntityTarget,
  keyText: string,
  mostChars?: number,
) {
  const { history } = reader;
  await checkCopied(history, connector.name);
  const row = await history.explain(connector.name, table, keyText, mostChars);
  if (row === null) return null;
  const { incremental } = entity;
  const fields =
    incremental && (await storedFields(reader, connector.name, table.entity, keyText, incremental.field));
  const span = incremental && fields && compileChangeSpan(incremental)(Object.fromEntries(fields));
  const changeValue = span && new Date(span.highestMs).toISOString();
  const runs = await history.runs({ connector: connector.name, kind: 'sync', limit: mostUnended });
  const [lastSync = null] = runs;
  const known = { row, changedBy: await history.run(row.changedByRun), lastSync, changeValue };
  // A run in progress has no report, and one that could not begin has no entities.
  const judged = runs.map(({ report }) => report?.entities ?? []).find((entities) => entities.length > 0);
  const ofEntity = judged?.find((one) => one.entity === row.missing?.entity);
  // Rows of the entity that a guard keeps until a person decides, this one among them; 0: none, or not this one.
  const withheld = ofEntity?.withheld ?? 0;
  return { ...known, reason: await reasonOf(known, entity.name, history), withheld };
}

const mostUnended = 10;

async function reasonOf(known: Known, walked: EntityName, history: LedgerReader): Promise<Reason> {
  const { row, lastSync, changeValue } = known;
  const { partition } = row;
  if (lastSync === null) return { kind: 'no-sync' };
  if (partition === null) return { kind: 'no-partition' };
  if (partition.isGone) return { kind: 'parent-gone' };
  if (partition.dueSince !== null) return { kind: partition.failure === null ? 'due' : 'set-aside' };
  if (await wasSealedBy(partition, lastSync, history)) {
    if (partition.mode !== 'incremental') return { kind: 'full', isMet: wasMet(known, partition) };
    const { watermark } = partition;
    if (row.changedByRun === partition.sealedRun) return { kind: 'incremental', isMet: true };
    const isMet = changeValue === null || watermark === null ? null : changeValue >= watermark;
    return { kind: 'incremental', isMet };
  }
  const wasRead =
    lastSync.report === null || lastSync.report.entities.some(({ entity }) => entity === walked);
  if (!wasRead) return { kind: 'not-selected' };
  const isMarked = partition.marker !== null && partition.foundAt >= lastSync.startedAt;
  return { kind: isMarked ? 'marker' : 'not-led-to' };
}

/** A walk before the undo did not meet a row that a person has restored since: that is why it had been deleted. */
function wasMet({ row, changedBy }: Known, { sealedAt }: PartitionHistory): boolean {
  const wasUndone = changedBy?.kind === 'undo' && row.changedAt > (sealedAt ?? '');
  return row.missing === null && row.deletedAt === null && !wasUndone;
}

/** By the run, or by one that it resumed. */
async function wasSealedBy({ sealedRun }: PartitionHistory, run: RunSummary, history: LedgerReader) {
  for (let one: RunSummary | null = run; one !== null;) {
    if (one.run === sealedRun) return true;
    one = one.continues === null ? null : await history.run(one.continues);
  }
  return false;
}
