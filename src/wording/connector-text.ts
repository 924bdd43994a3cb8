import type { ConnectorHealth, Trouble } from '../app/connector-health.ts';
import type { SignInState } from '../app/connector-states.ts';
import type { Explanation } from '../app/explain-row.ts';
import { instant, type Instant } from '../core/clock.ts';
import type { EntityName } from '../core/names.ts';
import type { JsonType, QuarantineReason } from '../core/records.ts';
import type { Entity } from '../definitions/definition.ts';
import { firstNames } from '../definitions/suggest-name.ts';
import { wholeJson } from '../core/canonical-json.ts';
import type { EntityTarget } from '../settings/choices.ts';
import type { ConnectorSettings } from '../settings/settings.ts';
import { formatDuration } from '../settings/texts.ts';
import type { LeftStep, StoredMask } from '../sinks/requests.ts';
import type { MissingRow } from '../sinks/readings.ts';
import { count, counted, printable, printableWithin, roughly, toTheMinute } from '../telemetry/format.ts';

interface TextStyle {
  /** The command that starts this program. */
  readonly program: string;
  readonly nowMs: number;
}

/** The reason for a connector's health word; null if it needs none. */
export function reasonLine({ reason }: Pick<ConnectorHealth, 'reason'>, connector: string, style: TextStyle) {
  return reason === null ? null : troubleLine(reason, connector, style);
}

/** The problem and its solution, with commands in double quotes. */
export function troubleLine(trouble: Trouble, connector: string, { program, nowMs }: TextStyle): string {
  const command = (text: string): string => `"${program} ${text}"`;
  switch (trouble.kind) {
    case 'withheld': {
      const { rows } = trouble;
      return `${counted(rows, 'row')} ${rows === 1 ? 'looks' : 'look'} deleted and ${rows === 1 ? 'is' : 'are'} kept. Check at the source; if they are deleted there: ${command(`sync ${connector} --allow-deletes`)}`;
    }
    case 'pending':
      return `${counted(trouble.rows, 'row')} may be deleted; later runs check ${trouble.rows === 1 ? 'it' : 'them'}.`;
    case 'credentials':
      return trouble.code === 'FORBIDDEN'
        ? `The credentials lack a right (FORBIDDEN)${because(trouble)}. Grant it at the service; ${command(`status ${connector}`)} shows for what.`
        : `The service refused the credentials (${trouble.code})${because(trouble)}. Renew them, then ${command(`check ${connector}`)}`;
    case 'sign-in':
      return `${signInText(trouble.signIn, connector, program)}.`;
    case 'schema':
      return `The records have fields that the definition does not declare. ${command(`schema diff ${connector}`)} lists them.`;
    case 'fields': {
      const { fields, untilMs } = trouble;
      const names = fields.map(
        ({ entity, field, kind }) =>
          `${entity}.${field} (${kind === 'misfit' ? 'values do not fit' : 'new'})`,
      );
      return `${counted(fields.length, 'field')} ${fields.length === 1 ? 'is' : 'are'} not as the definition declares: ${printable(firstNames(names, 3))}. Nothing is lost. ${command(`schema diff ${connector}`)} has lines to declare what is new, and ${command(`schema diff ${connector} --known`)} ends this. Otherwise it stands here until ${toTheMinute(instant(untilMs))}.`;
    }
    case 'withheld-by-age':
      return `${withheldItemsText(trouble.entities, trouble.items)} Check "retention" and "history" of the config; if all of it is to go: ${command(`prune ${connector} --allow-deletes`)}`;
    case 'purge':
      return `A purge is not finished: the sink or a target may still hold what was purged. To finish it: ${command(`prune ${connector}`)}`;
    case 'error':
      return `The last run stopped (${trouble.code})${because(trouble)}. Once it is put right: ${command(`sync ${connector}`)}`;
    case 'quarantine': {
      const { what, why, are } = refusedText(trouble);
      return `${what}${why === '' ? '' : `: ${why}`}. ${are} kept apart; ${command(`status ${connector}`)} shows the newest.`;
    }
    case 'throttled':
      return `The service asked for a pause until ${toTheMinute(trouble.until)}${countdownText(Date.parse(trouble.until) - nowMs)}; the next run resumes.`;
    case 'retried':
      return `The API did not answer as expected (${trouble.code})${because(trouble)}; the next run tries again.`;
    case 'interrupted':
      return 'The last run was interrupted; the next run resumes it.';
    case 'limited':
      return 'The last run ended at the limit that it was given; the next run resumes it.';
    case 'left-out':
      return `The last run left something out; ${command(`status ${connector}`)} shows what.`;
    case 'part-missing':
      return `${counted(trouble.listings, 'listing')} may have records that did not come; ${command(`status ${connector}`)} shows which.`;
    case 'unproven':
      return `The definition of ${firstNames(trouble.entities, 3)} rests on guesses that nothing has proven. ${command('definitions try <file> <entity> --prove')} tests them; ${command('definitions check <file>')} lists them.`;
    case 'late': {
      const { entity, asOf, freshWithinMs } = trouble;
      const age = asOf === null ? 'was never read completely' : `is as of ${toTheMinute(asOf)}`;
      const limit = freshWithinMs === null ? '' : `, and may be ${roughly(freshWithinMs)} old`;
      return `${entity} ${age}${limit}. Is a worker running? ${command(`sync ${connector}`)} reads it now.`;
    }
    case 'paused':
      return `Paused since ${toTheMinute(trouble.since)}: ${printable(trouble.reason)}. To end the pause: ${command(`schedule resume ${connector}`)}`;
  }
}

/** `3 records of purchase_orders were refused`, and why: `amount is a text`; empty: the field is not known. */
export function refusedText({ of, misfits }: Extract<Trouble, { readonly kind: 'quarantine' }>) {
  const number = of.reduce((sum, { records }) => sum + records, 0);
  const [was, are] = number === 1 ? ['was', 'It is'] : ['were', 'They are'];
  const names = firstNames(of.map(({ entity }) => entity));
  const fields = misfits.map(
    ({ field, types }) => `${field} is ${firstNames(types.map((type) => typeWords[type]))}`,
  );
  const others = [...new Set(of.flatMap(({ reasons }) => reasons))].flatMap(
    (reason) => refusals[reason] ?? [],
  );
  const why = printable(firstNames([...fields, ...others], 3));
  return { what: `${counted(number, 'record')} of ${names} ${was} refused`, why, are };
}

const typeWords: Readonly<Record<JsonType, string>> = {
  string: 'a text',
  integer: 'a whole number',
  number: 'a number',
  boolean: 'true or false',
  object: 'an object',
  array: 'a list',
  null: 'empty',
};

/** Reasons that are no matter of a field; that of `schema-change` is the field. */
const refusals: Partial<Readonly<Record<QuarantineReason, string>>> = {
  'not-an-object': 'it is no object',
  'key-missing': 'the key is missing',
  'key-type': 'the key has the wrong type',
  'too-deep': 'it is nested too deeply',
  'too-large': 'it is too large',
  partial: 'only a part of it came',
};

/** Messages may be long: the run's report has the whole of one. */
const mostOfMessage = 300;

/** A message says what to do, where the code alone does not. */
function because({ message }: { readonly message: string | undefined }): string {
  return message === undefined ? '' : `: ${printableWithin(message, mostOfMessage).replace(/\.$/, '')}`;
}

/** A pause that is over by this clock is not counted down. */
function countdownText(ms: number): string {
  return ms <= 0 ? '' : `, in ${roughly(ms)}`;
}

/** A connector's schedule as its config has it, except its jitter. */
export function scheduleText(schedule: ConnectorSettings['schedule']): string {
  if (schedule === null) return 'none: by hand';
  return schedule.kind === 'cron'
    ? `${schedule.pattern} ${schedule.timezone}`
    : `every ${formatDuration(schedule.everyMs)}`;
}

/** State of a sign-in by a person, and the solution of its problems. */
export function signInText(signIn: SignInState, connector: string, program: string): string {
  const { state, since, renewedAt, renewalBegunAt, account, accessUntil, endsAt, why } = signIn;
  const login = `run "${program} login ${connector}"`;
  const who = account === null ? '' : ` as ${printable(account)}`;
  switch (state) {
    case 'signed-out':
      return `not signed in: ${login}`;
    case 'unreadable':
      return `whether it is signed in cannot be read: ${printable(why ?? '')}`;
    case 'ended':
      return `the sign-in${who} has ended (${printable(why ?? '')}): ${login}`;
    case 'signed-in': {
      const facts = [
        `signed in since ${toTheMinute(since ?? '')}${who}`,
        ...(renewedAt === null ? [] : [`renewed ${toTheMinute(renewedAt)}`]),
        ...(endsAt !== null
          ? [`good until ${toTheMinute(endsAt)}`]
          : accessUntil === null
            ? []
            : [`access until ${toTheMinute(accessUntil)}, then it is renewed`]),
        ...(renewalBegunAt === null
          ? []
          : [`a renewal began at ${toTheMinute(renewalBegunAt)} and has not ended`]),
      ];
      return facts.join(', ');
    }
  }
}

/** Values that may be stored as they were before the masks of the config; a line for each entity. */
export function maskLines(
  { name, masks, definition }: Pick<ConnectorSettings, 'name' | 'masks' | 'definition'>,
  stored: readonly StoredMask[],
): readonly string[] {
  return [...masks].flatMap(([entity, { mask }]) => {
    const known = stored.find((one) => one.entity === entity);
    // Without the key it is not known whether the mask is another one.
    if (mask.fingerprint === '') return [];
    if (known?.mask !== mask.fingerprint) {
      return [
        `mask of ${entity}: not in use yet, all that is stored is as before, as are publications and backups; the next sync reads in full`,
      ];
    }
    const { since, readAt, deleted, quarantined } = known;
    if (since === null) return [];
    const elements = definition.entities.get(entity)?.explode?.into;
    const beside = [
      // No read replaces them.
      ...(elements === undefined ? [] : [`rows of ${elements}`]),
      ...(quarantined === 0 ? [] : [counted(quarantined, 'quarantined record')]),
      'JSONL lines, versions of rows, publications and backups made before',
    ];
    if (readAt === null) {
      const when = `since ${toTheMinute(since)}`;
      return [
        `mask of ${entity}: in use ${when}; rows that no read has reached since are as before, and so are ${beside.join(', ')}. ${rewrite(name)}`,
      ];
    }
    const places = [
      ...(deleted === 0 ? [] : [`deleted rows (of ${count(deleted)} those deleted before)`]),
      ...beside,
    ];
    return [
      `mask of ${entity}: all rows have it since ${toTheMinute(readAt)}; as before may be ${places.join(', ')}. ${rewrite(name)}`,
    ];
  });
}

function rewrite(connector: string): string {
  return `To mask them: connector-sync purge ${connector} --unmasked`;
}

/** That a record was purged which is not stored, as the sink notes it. */
export function purgedText({
  at,
  who,
  canReturn,
}: {
  readonly at: string;
  readonly who: string;
  readonly canReturn: boolean;
}): string {
  const next = canReturn ? 'the next sync that meets it stores it again' : 'syncs do not store it again';
  return `was purged at ${at} by ${who}; ${next}.`;
}

/** Work that a purge has left in the sink. */
export function leftText({ step, entity, why }: LeftStep): string {
  const what = step === 'lines' ? 'lines of its files' : 'freed space of its table';
  return `Not done yet: ${what} (${entity}): ${why} Then: prune`;
}

/** Says that more data is older than the config keeps than a guard removes at once. */
export function withheldByAgeText(one: {
  readonly entity: EntityName;
  readonly what: 'rows' | 'files' | 'versions';
  readonly count: number;
  readonly of: number;
}): string {
  const share = ((100 * one.count) / one.of).toFixed(one.count * 100 < one.of ? 1 : 0);
  const what = one.what === 'rows' ? 'deleted rows' : one.what;
  return `! ${one.entity}: ${count(one.count)} ${what} are older than the config keeps, ${share} % of all ${count(one.of)} ${one.what}: kept, that is more than the guards let go at once`;
}

/** Advice for a person about data that a guard keeps although it is too old. */
export function allowByAgeText(connector: string, program: string): string {
  return `  check "retention" and "history" of the config; if all of it is to go: ${program} prune ${connector} --allow-deletes`;
}

/** Items that a completed check kept; only their number is known. */
function withheldItemsText(entities: readonly EntityName[], items: number): string {
  const are = items === 1 ? 'is' : 'are';
  return `${counted(items, 'item')} of ${entities.join(', ')} (deleted rows, versions, files) ${are} older than the config keeps, and ${are} kept: that is more than the guards let go at once.`;
}

/** The history of a record for a person: names and texts of facts. */
export function explanationFacts(
  { name, entity }: Pick<EntityTarget, 'name' | 'entity'>,
  explanation: Explanation,
  program: string,
): readonly (readonly [string, string])[] {
  const { row, changedBy, changeValue, lastSync } = explanation;
  const { partition } = row;
  const kind = changedBy === null || changedBy.kind === 'sync' ? 'run' : changedBy.kind;
  const facts: readonly (readonly [string, string | null])[] = [
    ['first seen', row.firstSeenAt],
    ['last written', `${row.changedAt} by ${kind} ${row.changedByRun}, _seq ${row.seq}`],
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
    ['looks deleted', row.missing === null ? null : missingText(row.missing, explanation, program, name)],
  ];
  return [
    ...facts.flatMap(([what, text]) => (text === null ? [] : [[what, text] as const])),
    ...(row.versions ?? []).map((version) => ['version', versionText(version)] as const),
  ];
}

type Row = Explanation['row'];

function versionText(version: NonNullable<Row['versions']>[number]): string {
  const { seq, validFrom, validTo, isDeleted, changed } = version;
  const span = `${validFrom} to ${validTo ?? 'now'}, _seq ${seq}`;
  if (isDeleted) return `${span}: deleted`;
  if (changed === null) return `${span}: the first that is kept`;
  if (changed.length === 0) return `${span}: came back as it was`;
  return `${span}: changed ${changed.map(printable).join(', ')}`;
}

function readText({ mode, sealedAt, sealedRun, watermark, fullAt }: NonNullable<Row['partition']>): string {
  if (sealedAt === null) return 'never completely';
  const how = mode === 'incremental' ? 'changes only' : 'in full';
  const full = mode === 'incremental' ? `, last full read ${fullAt ?? 'unknown'}` : '';
  const known = watermark === null ? '' : `; everything up to ${watermark} is stored`;
  return `${how} ${sealedAt}${sealedRun === null ? '' : ` by run ${sealedRun}`}${full}${known}`;
}

function reasonText({ row, reason, changeValue, changedBy }: Explanation, entity: Entity): string {
  const { partition, deletedAt } = row;
  if (deletedAt !== null && changedBy?.kind === 'refetch') {
    return 'a refetch asked for it, and it was not there';
  }
  if (deletedAt !== null && changedBy?.kind === 'sync' && partition?.isGone === false) {
    const confirmed = partition.absence === 'get' ? ', and the service answered 404 for it' : '';
    return `its listing was read in full without it${confirmed}`;
  }
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
      return `the last sync read its listing in full and ${reason.isMet ? 'found it' : 'did not find it'}`;
    case 'incremental':
      return incrementalText(reason.isMet, changeValue, partition);
    case 'marker':
      if (entity.windows !== null) return 'its window ended too long ago to change; full reads read it again';
      return `its listing was not read, because its parent record has not changed since (change time ${printable(partition?.marker ?? '')})`;
    case 'not-led-to':
      return 'its listing was not read: its parent record has not changed, or exists but is no longer listed (in the trash)';
  }
}

function incrementalText(
  isMet: boolean | null,
  changeValue: Instant | null,
  partition: Row['partition'],
): string {
  const asked = 'the last sync asked its listing for changes only';
  const full = `a full read, the last of which began ${partition?.fullAt ?? 'at an unknown time'}`;
  if (isMet === null) return `${asked}; it has no readable change time, so only ${full}, finds it`;
  return isMet
    ? `${asked}, and it was among them`
    : `${asked}; its change value ${changeValue ?? ''} is older than the sync cursor (${partition?.watermark ?? ''}), so it may not have been asked for; ${full}, finds it`;
}

function failureText(partition: Row['partition']): string {
  const failure = partition?.failure ?? null;
  if (failure === null) return '';
  return `${failure.at}: ${failure.code}: ${printable(failure.message)}`;
}

function missingText(
  { missingSince, missedWalks, needs }: MissingRow,
  { withheld }: Pick<Explanation, 'withheld'>,
  program: string,
  name: string,
) {
  const [connector = ''] = name.split('/');
  if (withheld > 0) {
    const rows = withheld === 1 ? 'it vanished' : `${count(withheld)} rows vanished at once`;
    return `waits for a person since ${missingSince}: ${rows}, and ${counted(missedWalks, 'full read')} did not find ${withheld === 1 ? 'it' : 'them'}; to delete: ${program} sync ${connector} --full --allow-deletes`;
  }
  const missed = `${counted(missedWalks, 'full read')} did not find it, the first ${missingSince}`;
  switch (needs) {
    case 'nothing':
      return `${missed}; kept until the next run deletes it`;
    case 'get':
      return `${missed}; kept until a get confirms that it does not exist`;
    case 'walk':
      return `${missed}; kept until two full reads in a row agree on what is missing`;
  }
}
