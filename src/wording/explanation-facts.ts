import type { Explanation } from '../app/explain-row.ts';
import type { Instant } from '../core/clock.ts';
import type { Entity } from '../definitions/definition.ts';
import { wholeJson } from '../engine/prepare/canonical-json.ts';
import type { EntityTarget } from '../settings/choices.ts';
import type { RunSummary } from '../sinks/ledger-reader.ts';
import type { MissingRow, PartitionHistory, RowVersion } from '../sinks/row-history.ts';
import { counted, printable } from '../telemetry/format.ts';

/** The history of a record for a person: what a fact is called, and the fact. */
export function explanationFacts(
  { name, entity }: Pick<EntityTarget, 'name' | 'entity'>,
  explanation: Explanation,
  program: string,
): readonly (readonly [string, string])[] {
  const { row, changedBy, changeValue, lastSync } = explanation;
  const { partition } = row;
  const facts: readonly (readonly [string, string | null])[] = [
    ['first seen', row.firstSeenAt],
    ['last written', `${row.changedAt} by ${runText(row.changedByRun, changedBy)}, _seq ${row.seq}`],
    ['change time', changeValue === null ? null : `${entity.incremental?.field ?? ''} ${changeValue}`],
    ['deleted', row.deletedAt === null ? 'no' : `yes, marked ${row.deletedAt}`],
    [
      'listing',
      partition === null ? 'not known' : `${partition.entity} ${printable(wholeJson(partition.params))}`,
    ],
    ['last read', partition === null ? null : readText(partition)],
    [
      'last sync',
      lastSync === null ? 'none' : `${lastSync.state}, began ${lastSync.startedAt} (run ${lastSync.run})`,
    ],
    ['why', reasonText(explanation, entity)],
    ['looks deleted', row.missing === null ? null : missingText(row.missing, program, name)],
  ];
  return [
    ...facts.flatMap(([what, text]) => (text === null ? [] : [[what, text] as const])),
    ...(row.versions ?? []).map((version) => ['version', versionText(version)] as const),
  ];
}

function versionText({ seq, validFrom, validTo, isDeleted, changed }: RowVersion): string {
  const span = `${validFrom} to ${validTo ?? 'now'}, _seq ${seq}`;
  if (isDeleted) return `${span}: deleted`;
  if (changed === null) return `${span}: the first that is kept`;
  if (changed.length === 0) return `${span}: came back as it was`;
  return `${span}: changed ${changed.map(printable).join(', ')}`;
}

function runText(id: string, run: RunSummary | null): string {
  return run === null || run.kind === 'sync' ? `run ${id}` : `${run.kind} ${id}`;
}

function readText({ mode, sealedAt, sealedRun, watermark, fullAt }: PartitionHistory): string {
  if (sealedAt === null) return 'never completely';
  const how = mode === 'incremental' ? 'changes only' : 'in full';
  const full = mode === 'incremental' ? `, last full read ${fullAt ?? 'unknown'}` : '';
  const known = watermark === null ? '' : `; everything up to ${watermark} is stored`;
  return `${how} ${sealedAt}${sealedRun === null ? '' : ` by run ${sealedRun}`}${full}${known}`;
}

function reasonText({ row, reason, changeValue }: Explanation, entity: Entity): string {
  const { partition, deletedAt } = row;
  switch (reason.kind) {
    case 'no-sync':
      return 'this connector has not been synced yet';
    case 'no-partition':
      return 'it was stored by refetch; the next full read fills in its listing';
    case 'parent-gone':
      return 'its parent record is deleted, so its listing is no longer read';
    case 'set-aside':
      return `reading its listing failed ${failureText(partition)}; the next sync tries again`;
    case 'due':
      return `its listing has been waiting to be read since ${partition?.dueSince ?? ''}`;
    case 'not-selected':
      return `the last sync did not read ${entity.name}`;
    case 'full':
      return `the last sync read its listing in full and ${reason.isMet && deletedAt === null ? 'found it' : 'did not find it'}`;
    case 'incremental':
      return incrementalText(reason.isMet, changeValue, partition);
    case 'marker':
      return `its listing was not read, because its parent record has not changed since (change time ${printable(partition?.marker ?? '')})`;
    case 'not-led-to':
      return 'its listing was not read: its parent record has not changed, or exists but is no longer listed (in the trash)';
  }
}

function incrementalText(
  isMet: boolean | null,
  changeValue: Instant | null,
  partition: PartitionHistory | null,
): string {
  const asked = 'the last sync asked its listing for changes only';
  const full = `a full read, the last of which began ${partition?.fullAt ?? 'at an unknown time'}`;
  if (isMet === null) return `${asked}; it has no readable change time, so only ${full}, finds it`;
  return isMet
    ? `${asked}, and it was among them`
    : `${asked}; its change value ${changeValue ?? ''} is older than the sync cursor (${partition?.watermark ?? ''}), so it may not have been asked for; ${full}, finds it`;
}

function failureText(partition: PartitionHistory | null): string {
  const failure = partition?.failure ?? null;
  if (failure === null) return '';
  return `${failure.at}: ${failure.code}: ${printable(failure.message)}`;
}

function missingText(
  { missingSince, missedWalks, needs }: MissingRow,
  program: string,
  name: string,
): string {
  const missed = `${counted(missedWalks, 'full read')} did not find it, the first ${missingSince}`;
  const [connector = ''] = name.split('/');
  switch (needs) {
    case 'nothing':
      return `${missed}; kept, because more rows look deleted than the limit allows; to delete them: ${program} sync ${connector} --full --allow-deletes`;
    case 'get':
      return `${missed}; kept until a get confirms that it does not exist`;
    case 'walk':
      return `${missed}; kept until two full reads in a row agree on what is missing`;
  }
}
