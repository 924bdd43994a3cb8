import { countWords, healthOf } from '../../app/connector-health.ts';
import {
  keylessText,
  overviewOf,
  readOverviewsOfReadable,
  unfinishedPurgeText,
} from '../../app/connector-states.ts';
import { failureLimit, readStatuses, type StoredConnector } from '../../app/read-statuses.ts';
import { type Health, healthWords } from '../../core/health.ts';
import { chosenConnectors } from '../../settings/choices.ts';
import type { ConnectorSettings } from '../../settings/settings.ts';
import { damageAdvice, damageText } from '../../sinks/sink-access.ts';
import type { ConnectorStatus } from '../../sinks/ledger-reader.ts';
import { count, counted, printable, toTheMinute } from '../../telemetry/format.ts';
import { allowByAgeText, maskLines, reasonLine, signInText } from '../../wording/connector-text.ts';
import {
  completenessTexts,
  failureText,
  missingLines,
  storedPartMissing,
} from '../../wording/run-report-table.ts';
import { command, type FlagsOf, wholeNumber } from '../command.ts';
import { errorDocument, exitCodeOfError, exitCodes, gravestExitCode } from '../output/exit-codes.ts';
import { picked } from '../output/json-text.ts';
import { indentedTable, leftColumns, rightColumns, wrapped } from '../output/text-table.ts';

const most = 1_000_000;

const options = {
  '--failing': 'only those that are failed or incomplete',
  '--late': 'only those with an entity older than its freshWithin',
  '--limit <n>': { text: 'show at most so many; 0: all', default: '100' },
} as const;

export const status = command({
  argument: ['[connector...]', 'names from the config, * stands for any text (default: all)'],
  options,
  help: `
Examples:
  $ connector-sync status newsletter
  $ connector-sync status 'customer-*' --failing      those that are failed or incomplete
  $ connector-sync status --late --limit 0            everything older than its freshWithin`,
  run: async (context, flags, names) => {
    const chosen = chosenConnectors(await context.settings(), names);
    const { clock, program, terminal } = context;
    const nowMs = clock.now();
    const page = await openListPage(chosen, flags, nowMs);
    const shown = await readStatuses(page.connectors, page.overviews, clock);
    terminal.printJson({
      connectors: shown.map(
        ({
          connector,
          health,
          lastRun,
          ledgerPlace: _place,
          status,
          quarantine,
          paused,
          signIn,
          ...troubles
        }) => ({
          connector: connector.name,
          sink: connector.sink.name,
          health: health.word,
          reason: reasonLine(health, connector.name, { program, nowMs }),
          lastRun: lastRun === null ? null : picked(lastRun, 'run', 'state', 'startedAt', 'finishedAt'),
          paused: paused === null ? null : picked(paused, 'since', 'reason'),
          signIn,
          status,
          ...troubles,
          // Leaves out the records: they may be large, and personal.
          quarantine: quarantine.map(({ record: _record, ...row }) => row),
        }),
      ),
      ...page.sums,
      unreadableSinks: page.unreadable.map(({ sink, connectors, error }) => ({
        sink: sink.name,
        connectors: connectors.map(({ name }) => name),
        error: errorDocument(error),
      })),
    });
    const width = terminal.columns();
    const lines = shown.flatMap((one) => statusText(one, { program, nowMs, width }));
    terminal.print(...lines.flatMap((line) => wrapped(line, width)));
    terminal.note(...page.remarks);
    const isDamaged = shown.some(({ damagedFiles }) => damagedFiles.length > 0);
    const unread = page.unreadable.map(({ error }) => exitCodeOfError(error));
    return gravestExitCode([isDamaged ? exitCodes.failed : exitCodes.ok, ...unread]);
  },
});

type StatusStyle = Parameters<typeof reasonLine>[2] & { readonly width: number | null };

/** Describes the state of one connector, for a person. */
function statusText(shown: StoredConnector, style: StatusStyle): readonly string[] {
  const { connector, health, lastRun, status, failures, paused, purgeWork, signIn, unfinishedCopy } = shown;
  const { program, width } = style;
  const sink = `sink ${connector.sink.name}`;
  if (unfinishedCopy !== null) {
    const { from, to, since } = unfinishedCopy;
    return [
      `${connector.name}: not usable yet (${sink}): its copy from sink ${from}, begun at ${since}, is not complete`,
      `  to complete it: ${program} copy --from ${from} --to ${to} ${connector.name}`,
      `  to remove it: ${program} copy --to ${to} --discard ${connector.name}`,
    ];
  }
  const last =
    lastRun !== null
      ? `last run ${lastRun.state}, ${lastRun.finishedAt === null ? `started ${lastRun.startedAt}` : `ended ${lastRun.finishedAt}`} (run ${lastRun.run}), ${sink}`
      : status !== null
        ? `no run yet, ${sink}`
        : `not synced yet (${sink}); run "${program} sync ${connector.name}"`;
  const heading = [
    `${connector.name}: ${health.word}; ${last}`,
    ...reasonLines(shown, style),
    ...copiedText(shown, program),
    ...(signIn === null
      ? []
      : [`  ${signIn.needsPerson ? '! ' : ''}${signInText(signIn, connector.name, program)}`]),
    ...(paused === null ? [] : [`  schedule paused since ${paused.since}: ${printable(paused.reason)}`]),
  ];
  if (status === null) return heading;
  const keyless = keylessText(connector);
  const unfinished = unfinishedPurgeText(purgeWork, program);
  const rows = status.entities.map((entity) => [
    entity.entity,
    count(entity.rows),
    some(entity.deleted),
    some(entity.missing),
    some(entity.partitions),
    entity.partitions === 0 ? '' : count(entity.due),
    some(entity.quarantined),
    entity.completeness === null ? '' : completenessTexts[entity.completeness],
    readAtText(entity),
  ]);
  return [
    ...heading,
    ...indentedTable(columns, rows, width),
    ...failures.map(({ failure, ...of }) => `  ! ${failureText({ ...of, ...failure })} (${failure.at})`),
    ...storedPartMissing(status.entities).map((line) => `  ${line}`),
    ...(keyless === '' ? [] : [`  ${keyless}`]),
    ...maskLines(connector, shown.masks).map((line) => `  ! ${line}`),
    ...(unfinished === '' ? [] : [`  ! ${unfinished}`]),
    ...damageLines(shown, program),
    ...withheldByAgeLines(shown, program),
    ...filesText(shown, status),
    ...missingLines(shown, program).map((line) => `  ${line}`),
    ...quarantineText(shown, status),
  ];
}

/** Reasons that other lines of a status show. */
const namedBelow: ReadonlySet<string> = new Set(['withheld', 'part-missing', 'paused', 'sign-in']);

function reasonLines(shown: StoredConnector, style: StatusStyle): readonly string[] {
  const { reason } = shown.health;
  if (reason === null || namedBelow.has(reason.kind)) return [];
  return [`  ! ${printable(reasonLine(shown.health, shown.connector.name, style) ?? '')}`];
}

function some(number: number): string {
  return number === 0 ? '' : count(number);
}

/** Rows exploded out of another entity's records have no walks. */
function readAtText({ lastCompleteReadAt, partitions }: ConnectorStatus['entities'][number]): string {
  if (lastCompleteReadAt !== null) return toTheMinute(lastCompleteReadAt);
  return partitions === 0 ? '' : 'never';
}

function withheldByAgeLines({ connector, withheldByAge }: StoredConnector, program: string) {
  if (withheldByAge.length === 0) return [];
  return [
    ...withheldByAge.map(
      ({ entity, withheld }) =>
        `  ! ${entity}: ${count(withheld)} are older than the config keeps; kept by a guard`,
    ),
    `  ${allowByAgeText(connector.name, program)}`,
  ];
}

function damageLines({ connector, damagedFiles }: StoredConnector, program: string): readonly string[] {
  if (damagedFiles.length === 0) return [];
  const more = damagedFiles.length - failureLimit;
  return [
    ...damagedFiles.slice(0, failureLimit).map((file) => `  ! ${printable(damageText(file))}`),
    ...(more > 0 ? [`  ! and ${counted(more, 'more damaged file')}`] : []),
    `  ${damageAdvice(connector.name, program)}`,
  ];
}

/** Describes files by entity; entities whose files the settings do not request are shown if they have stored ones. */
function filesText({ connector, fileFailures }: StoredConnector, status: ConnectorStatus): readonly string[] {
  const lines = status.entities.flatMap(({ entity, files }) => {
    const isFetched = connector.downloads?.entities.some((name) => name === entity) === true;
    if (files === null || (files.stored === 0 && !isFetched)) return [];
    const { stored, bytes, wanted, failed } = files;
    const parts = [
      `${counted(stored, 'file')} (${count(Math.round(bytes / 1024))} KiB)`,
      ...(wanted > 0 ? [`${count(wanted)} to be fetched`] : []),
      ...(failed > 0 ? [`${count(failed)} of them failed`] : []),
    ];
    return [`  ${entity}: ${parts.join(', ')}`];
  });
  return [
    ...lines,
    ...fileFailures.map(
      ({ failure, ...of }) => `  ! file of ${failureText({ ...of, ...failure })} (${failure.at})`,
    ),
  ];
}

function copiedText({ connector, copiedAway }: StoredConnector, program: string): readonly string[] {
  if (copiedAway === null) return [];
  const { from, to, at } = copiedAway;
  return [
    `  ! copied to sink ${to} at ${at}: ${from} takes no more syncs of it. Set "sink: ${to}" for it in the config, or continue here:`,
    `    ${program} copy --from ${from} --reopen ${connector.name}`,
  ];
}

function quarantineText({ ledgerPlace, quarantine }: StoredConnector, status: ConnectorStatus) {
  const all = status.entities.reduce((sum, { quarantined }) => sum + quarantined, 0);
  if (all === 0) return [];
  const place = `the table _sync_quarantine of ${printable(ledgerPlace)}`;
  return [
    `  ${counted(all, 'record')} in quarantine, kept whole in ${place}${all > quarantine.length ? '; the newest' : ''}:`,
    ...quarantine.map(({ entity, reason, detail }) => `    ${entity} ${printable(`${reason}: ${detail}`)}`),
  ];
}

const columns = [
  ...leftColumns('entity'),
  ...rightColumns('rows', 'deleted', 'look deleted', 'listings', 'left to read', 'quarantined'),
  ...leftColumns('complete', 'last complete read'),
];

/**
 * The connectors that match the flags, as many as are shown, and the counts of all named ones. A sink that cannot be
 * read does not hide the others. Throws USAGE for a flag that is no number, and where no sink can be read.
 */
async function openListPage(
  chosen: readonly ConnectorSettings[],
  flags: FlagsOf<typeof options>,
  nowMs: number,
) {
  const { overviews, readable, unreadable } = await readOverviewsOfReadable(chosen);
  const limit = wholeNumber('--limit', flags.limit, most);
  const all = readable.map((connector) => ({
    connector,
    health: healthOf(connector, overviewOf(overviews, connector), nowMs),
  }));
  const asked: readonly Health[] = [
    ...(flags.failing ? (['failed', 'incomplete'] as const) : []),
    ...(flags.late ? (['late'] as const) : []),
  ];
  const matching = all.filter(
    ({ health }) => asked.length === 0 || asked.some((word) => health.words.has(word)),
  );
  const connectors = matching.slice(0, limit === 0 ? undefined : limit).map((one) => one.connector);
  const total = matching.length;
  const counts = countWords(all.map(({ health }) => health));
  const isCut = connectors.length < total;
  const words = healthWords.flatMap((word) => (counts[word] === 0 ? [] : [`${count(counts[word])} ${word}`]));
  const ofAll = `Of all: ${words.join(', ')}.${isCut ? ' "--limit 0" shows all.' : ''}`;
  const shown = `${count(connectors.length)}${isCut ? ` of ${count(total)}` : ''} shown.`;
  return {
    connectors,
    overviews,
    unreadable,
    sums: { total, counts },
    remarks: [
      ...(isCut || asked.length > 0 ? [`${shown} ${ofAll}`] : []),
      ...unreadable.map(
        (one) =>
          `Not shown: ${counted(one.connectors.length, 'connector')} of the sink "${one.sink.name}". ${one.error.message}`,
      ),
    ],
  };
}
