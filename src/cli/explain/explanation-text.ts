import type { Instant } from '../../core/clock.ts';
import type { Entity } from '../../definitions/definition.ts';
import type { MissingRow, PartitionHistory, RunSummary } from '../../sinks/ledger-reader.ts';
import { printable } from '../../telemetry/printable.ts';
import { counted } from '../../telemetry/progress-text.ts';
import type { EntityTarget } from '../entity-target.ts';
import { jsonText } from '../json-text.ts';
import type { Explanation } from './explain-row.ts';

/** The explanation for a person, a fact per line. */
export function explanationText(
  { name, entity }: EntityTarget,
  keyText: string,
  explanation: Explanation,
  program: string,
): readonly string[] {
  const { row, changedBy, changeValue } = explanation;
  const facts: readonly (readonly [string, string | null])[] = [
    ['first seen', row.firstSeenAt ?? 'not known, an earlier version stored it'],
    ['last written', `${row.changedAt} by ${runText(row.changedByRun, changedBy)}, _seq ${row.seq}`],
    ['change value', changeValue === null ? null : `${entity.incremental?.field ?? ''} ${changeValue}`],
    ['deleted', row.deletedAt === null ? 'no' : `yes, marked ${row.deletedAt}`],
    ['listing', row.partition === null ? 'not known' : listingText(row.partition)],
    ['last read', row.partition === null ? null : readText(row.partition)],
    ['last sync', explanation.lastSync === null ? 'none' : lastSyncText(explanation.lastSync)],
    ['why', reasonText(explanation, entity)],
    ['missing', row.missing === null ? null : missingText(row.missing, program, name)],
  ];
  return [
    `${name} ${printable(keyText)}`,
    ...facts.flatMap(([what, text]) => (text === null ? [] : [`  ${`${what}:`.padEnd(14)}${text}`])),
  ];
}

function runText(id: string | null, run: RunSummary | null): string {
  if (id === null) return 'a run that is not known';
  return run === null || run.kind === 'sync' ? `run ${id}` : `${run.kind} ${id}`;
}

function lastSyncText({ run, state, startedAt }: RunSummary): string {
  return `${state}, began ${startedAt} (run ${run})`;
}

function listingText({ entity, params }: PartitionHistory): string {
  return `${entity} ${printable(jsonText(params))}`;
}

function readText({ mode, sealedAt, sealedRun, watermark, fullAt }: PartitionHistory): string {
  if (sealedAt === null) return 'never to its end';
  const how = mode === 'incremental' ? 'for changes only' : 'in full';
  const full = mode === 'incremental' ? `, in full last ${fullAt ?? 'not known'}` : '';
  const known = watermark === null ? '' : `; everything up to ${watermark} is stored`;
  return `${how} ${sealedAt}${sealedRun === null ? '' : ` by run ${sealedRun}`}${full}${known}`;
}

function reasonText({ row, reason, changeValue }: Explanation, entity: Entity): string {
  const { partition, deletedAt } = row;
  switch (reason.kind) {
    case 'no-sync':
      return 'no sync of this connector is known';
    case 'no-partition':
      return 'it was stored outside a walk (refetch), or by a version that did not note where it was met; the next full walk settles that';
    case 'parent-gone':
      return 'the record that leads to it is deleted, so its listing is not read any more';
    case 'set-aside':
      return `its listing was set aside ${failureText(partition)}; it stays due`;
    case 'due':
      return `its listing is due since ${partition?.dueSince ?? ''} and was not read yet`;
    case 'not-selected':
      return `the last sync did not read ${entity.name}`;
    case 'full':
      return fullText(reason.isMet, deletedAt);
    case 'incremental':
      return incrementalText(reason.isMet, { changeValue, partition });
    case 'marker':
      return `its listing was not read: the record that leads to it came with the change value of the last reading (${printable(partition?.marker ?? '')})`;
    case 'not-led-to':
      return 'its listing was not read: nothing that the last sync met leads to it. That is so below a record that has not changed, and below one that is still there but not listed any more (in the trash)';
  }
}

function fullText(isMet: boolean, deletedAt: Instant | null): string {
  if (deletedAt !== null) return 'the last sync read its listing in full, and it was not there any more';
  return isMet
    ? 'the last sync read its listing in full and met it'
    : 'the last sync read its listing in full and did not meet it';
}

function incrementalText(
  isMet: boolean | null,
  { changeValue, partition }: { changeValue: Instant | null; partition: PartitionHistory | null },
): string {
  const asked = 'the last sync asked its listing only for what had changed';
  const full = `a full read, the last of which began ${partition?.fullAt ?? 'at a time that is not known'}`;
  if (isMet === null) return `${asked}; it carries no readable change value, so only ${full}, meets it`;
  return isMet
    ? `${asked}, and it was among that`
    : `${asked}; its change value ${changeValue ?? ''} is older than the newest that is stored (${partition?.watermark ?? ''}), so it may not have been asked for; ${full}, meets it`;
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
  const missed = `${counted(missedWalks, 'full walk')} did not meet it, the first ${missingSince}`;
  const [connector = ''] = name.split('/');
  switch (needs) {
    case 'nothing':
      return `${missed}; a guard keeps it until "${program} sync ${connector} --full --allow-deletes" lets it pass`;
    case 'get':
      return `${missed}; it waits for a get that finds nothing either`;
    case 'walk':
      return `${missed}; it waits for another full walk that does not meet it`;
  }
}
