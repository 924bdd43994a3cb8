import { readOverview } from '../../../app/connector-states.ts';
import { readCopies } from '../../../app/copy-connector.ts';
import { checkWritable, freeBytes, sinkFindings } from '../../../app/reach-queues.ts';
import { targetStatus, withTarget } from '../../../app/publish-target.ts';
import { isWeakSecret } from '../../../core/hide-secrets.ts';
import { sinksOf } from '../../../settings/choices.ts';
import { checkTargets } from '../../../settings/load-settings.ts';
import type {
  LocalSettings,
  PublishSettings,
  SinkSettings,
  SettingsWith,
} from '../../../settings/settings.ts';
import { copiedAwayError, unfinishedCopyError } from '../../../sinks/acquire-errors.ts';
import { count, counted } from '../../../telemetry/format.ts';
import { unfinishedPurgeText } from '../../../wording/purged-text.ts';
import { exitCodes } from '../../output/exit-codes.ts';
import { openPatientApp } from '../../output/show-run.ts';
import { checkClosedFiles } from './check-closed-files.ts';
import { checkConnectors } from './check-connectors.ts';
import { checkMasks } from './check-masks.ts';
import {
  found,
  warning,
  openCheckProgress,
  attempt,
  failed,
  passed,
  skipped,
  summarize,
  type CheckContext,
  type CheckResult,
} from './check-result.ts';

const weakSecret = warning(
  'client secret',
  'it is short or an ordinary word: easy to guess, and not hidden where it stands in a message as a word; have the service give you a longer one',
);
const mebibyte = 1024 * 1024;
const leastFreeMiB = 100;
/** Of a worker, for each sink, without --concurrency. */
const defaultRuns = 2;

/** Every check, as each is done. Rejects when it is interrupted. */
export async function runChecks(
  context: CheckContext,
  settings: SettingsWith<'access' | 'redis'>,
  isDeep: boolean,
  onResult: (result: CheckResult) => void,
): Promise<readonly CheckResult[]> {
  const { signal } = context;
  const results: CheckResult[] = [];
  const add = (result: CheckResult): void => {
    results.push(result);
    onResult(result);
  };
  add(passed('config', `${counted(settings.connectors.size, 'connector')} in ${settings.file}`));
  add(passed('definitions', [...settings.definitions.keys()].join(', ')));

  await using app = await openPatientApp(context, settings, 'check');
  const { access } = settings;
  let hasToken = false;
  if (access !== null) {
    const credentials = await attempt('credentials', async () => {
      const catalog = await app.client.definitions(null, signal);
      return `${access.baseUrl} authenticated; ${counted(catalog.length, 'connector type')}`;
    });
    add(credentials);
    hasToken = credentials.state === 'ok';
    if (isWeakSecret(access.clientSecret.reveal())) add(weakSecret);
  }
  const { connectors, pages } = await checkConnectors(app, hasToken, context);
  for (const result of summarize(connectors, 'connectors')) add(result);
  for (const result of summarize(pages, 'pages')) add(result);
  for (const result of summarize(await checkMasks(settings), 'masks')) add(result);
  add(passed(access === null ? 'connections' : 'api connections', connectionsText(settings)));
  for (const result of await checkSinks(context, settings, isDeep)) add(result);
  for (const result of summarize(await checkCopies(settings), 'copies')) add(result);
  for (const target of settings.publish.values()) {
    add(await attempt(`target ${target.name}`, () => checkTarget(settings, target, context)));
  }
  for (const result of await checkRedis(settings, context)) add(result);
  return results;
}

/** Each call holds a connection, and each connector makes so many at a time; none can take another's. */
function connectionsText({ connectors, parts }: LocalSettings): string {
  const all = [...connectors.values()];
  const perSink = sinksOf(all).map(({ name }) =>
    all
      .flatMap(({ sink, concurrency }) => (sink.name === name ? [concurrency] : []))
      .toSorted((left, right) => right - left)
      .slice(0, defaultRuns)
      .reduce((sum, calls) => sum + calls, 0),
  );
  const lookUps = parts.api?.lookups.concurrency ?? 0;
  const calls = perSink.reduce((sum, one) => sum + one, lookUps);
  const more = lookUps === 0 ? '' : `, ${lookUps} look-ups`;
  return `a worker opens up to ${count(calls)} (${defaultRuns} runs for each sink${more}); the limit of open files (ulimit -n) must be higher`;
}

async function checkSinks(
  context: CheckContext,
  settings: LocalSettings,
  isDeep: boolean,
): Promise<readonly CheckResult[]> {
  const sinks: CheckResult[] = [];
  const servers: CheckResult[] = [];
  const disks: CheckResult[] = [];
  const files: CheckResult[] = [];
  const purges: CheckResult[] = [];
  using progress = openCheckProgress(context);
  const all = sinksOf([...settings.connectors.values()]);
  for (const [index, sink] of all.entries()) {
    context.signal.throwIfAborted();
    progress.tell(() => `${count(index)} of ${counted(all.length, 'sink')} checked`);
    const opened = await attempt(`sink ${sink.name}`, () => checkSink(sink, context));
    sinks.push(opened);
    servers.push(...(await checkUnderneath(sink, context, opened.state === 'ok')));
    const what = `disk of ${sink.name}`;
    if (opened.state !== 'ok') {
      disks.push(skipped(what, 'the sink could not be opened'));
      continue;
    }
    disks.push(await attempt(what, () => checkDisk(sink)));
    files.push(...(await checkClosedFiles(context, settings, sink, isDeep)));
    for (const { connector, purgeWork } of (await readOverview(sink)).connectors.values()) {
      const text = unfinishedPurgeText(purgeWork, context.program);
      if (text !== '') purges.push(warning(`purge of ${connector}`, text));
    }
  }
  return [
    ...summarize(sinks, 'sinks'),
    ...summarize(servers, 'servers'),
    ...summarize(disks, 'disks'),
    ...summarize(purges, 'purges'),
    ...files,
  ];
}

async function checkSink(sink: SinkSettings, context: CheckContext): Promise<string> {
  const { place, connectors } = await checkWritable(sink, context);
  return `${place} can be written (${counted(connectors, 'connector')} in it)`;
}

/** A sink that could not be opened because of what it rests on: that is shown too, where it can be asked. */
async function checkUnderneath(
  sink: SinkSettings,
  { clock }: CheckContext,
  isOpen: boolean,
): Promise<readonly CheckResult[]> {
  try {
    const findings = await sinkFindings(sink, clock);
    return findings
      .filter(({ state }) => isOpen || state !== 'ok')
      .map((finding) => found({ ...finding, what: `${finding.what} of ${sink.name}` }));
  } catch (error) {
    return isOpen ? [failed(`server of ${sink.name}`, error)] : [];
  }
}

async function checkDisk(sink: SinkSettings): Promise<string> {
  const bytes = await freeBytes(sink);
  if (bytes === null) return 'free space on the server: unknown';
  const freeMiB = Math.floor(bytes / mebibyte);
  if (freeMiB < leastFreeMiB) {
    throw new Error(`expected at least ${leastFreeMiB} MiB free, got ${freeMiB} MiB`);
  }
  return `${count(freeMiB)} MiB free`;
}

/**
 * Copies that were not completed, into every sink of the config: a sink may be there for a copy alone. And connectors
 * of the config that have left the sink that it names for them. Both fail the next sync where the connector is to be
 * synced into that sink.
 */
async function checkCopies({ sinks, connectors }: LocalSettings): Promise<readonly CheckResult[]> {
  const results: CheckResult[] = [];
  for (const sink of sinks.values()) {
    const { unfinished, away } = await readCopies(sink);
    for (const copy of unfinished.values()) {
      const connector = connectors.get(copy.connector);
      const what = `copy of ${copy.connector}`;
      const problem = failed(what, unfinishedCopyError(copy));
      const isUsed = connector?.sink.name === sink.name;
      results.push(isUsed ? problem : { ...problem, state: 'warning', exitCode: exitCodes.ok });
    }
    for (const copy of away.values()) {
      const isUsed = connectors.get(copy.connector)?.sink.name === sink.name;
      if (isUsed) results.push(failed(`copy of ${copy.connector}`, copiedAwayError(copy)));
    }
  }
  return results;
}

/** Makes no publication; a file that shows that one could be made is removed again. */
async function checkTarget(
  settings: LocalSettings,
  target: PublishSettings,
  context: CheckContext,
): Promise<string> {
  checkTargets(settings, [target]);
  await withTarget(target, context, (opened) => opened.probe());
  const { newest, refusal } = await targetStatus(target, context);
  if (refusal !== null) throw refusal;
  if (newest === null) return `${target.type} can be written; nothing was published yet`;
  const { publication, createdAt } = newest.manifest;
  return `${target.type} can be written; publication ${publication} of ${createdAt}`;
}

/**
 * The Redis of the config, where something would use it: a schedule, or rates that are shared through it. Without a
 * schedule nothing fails for want of one.
 */
async function checkRedis(
  settings: SettingsWith<'redis'>,
  { clock }: Pick<CheckContext, 'clock'>,
): Promise<readonly CheckResult[]> {
  const isScheduled = [...settings.connectors.values()].some(({ schedule }) => schedule !== null);
  if (!settings.redis.isConfigured && !isScheduled) return [];
  // Loaded only here, as everywhere else in the command line.
  const { examineRedis } = await import('../../../jobs/connect-redis.ts');
  const findings = await examineRedis(settings.redis, clock);
  return findings.map((finding) =>
    finding.state === 'failed' && !isScheduled
      ? skipped(finding.what, `no schedule needs it, and rates are not shared without it: ${finding.detail}`)
      : found(finding),
  );
}
