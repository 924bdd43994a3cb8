import { type Clock, slept } from '../core/clock.ts';
import { type ErrorCode, hasCode, SyncError, ThrottledError } from '../core/errors.ts';
import type { OnRunEvent } from '../core/events.ts';
import { eachOf, grouped } from '../core/grouped.ts';
import type { ConnectorName } from '../core/names.ts';
import { isWeakSecret } from '../core/secret.ts';
import { refuseTodos } from '../definitions/definition.ts';
import { firstNames } from '../definitions/suggest-name.ts';
import { probePage } from '../engine/try-listing.ts';
import { chosenConnectors, sinksOf } from '../settings/choices.ts';
import type {
  ConnectorSettings,
  LocalSettings,
  PublishSettings,
  SettingsWith,
  SinkSettings,
} from '../settings/settings.ts';
import { checkTargets, secretsOf, withParts } from '../settings/load-settings.ts';
import { maskGaps } from '../settings/mask-settings.ts';
import { type ComparedContents, damageAdvice, damageText } from '../sinks/sink-access.ts';
import {
  copiedAwayError,
  IdentityChangedError,
  identityDifferences,
  unfinishedCopyError,
} from '../sinks/sink-errors.ts';
import type { ConnectorSource } from '../source/source.ts';
import { count, counted, printable, roughly } from '../telemetry/format.ts';
import { createScrubber } from '../telemetry/scrubber.ts';
import type { App } from './app.ts';
import { checkAddress, storedOrigin } from './connector-address.ts';
import { keylessText, readOverview, unfinishedPurgeText } from './connector-states.ts';
import { readCopies } from './copy-connector.ts';
import { openApp } from './open-app.ts';
import { targetStatus, withTarget } from './publish-target.ts';
import { checkWritable } from './reach-queues.ts';
import { accessSink } from '../sinks/registry.ts';
import { readDrift } from './read-statuses.ts';

/** Limits the settings to these connectors and their targets; without names they are complete. */
export function withConnectors<Of extends LocalSettings>(settings: Of, names: readonly string[]): Of {
  if (names.length === 0) return settings;
  const chosen = chosenConnectors(settings, names);
  return {
    ...settings,
    connectors: new Map(chosen.map((connector) => [connector.name, connector])),
    publish: new Map(
      [...settings.publish].filter(([, target]) => target.connectors.some((one) => chosen.includes(one))),
    ),
    sinks: new Map(sinksOf(chosen).map((sink) => [sink.name, sink])),
  };
}

/** The time for a check on a page, and the part of it for pages of the service. */
const plannedWithinMs = 30_000;
const plannedPagesMs = 20_000;

/** Begins the name of a check of a connector itself, its sink included. */
const ofConnector = /^(credentials|client secret|connector|pages?|masks?|sink|target|check|more checks)\b/;

/**
 * Checks a connector that is not in the config yet, with its sink, within 30 seconds. No secret of the config stands in
 * the results. Rejects only when it is interrupted.
 */
export async function checkPlanned(
  { name, settings }: Pick<ConnectorSettings, 'name'> & { readonly settings: LocalSettings },
  context: CheckContext,
) {
  const atMs = context.clock.now();
  const within = AbortSignal.any([context.signal, AbortSignal.timeout(plannedWithinMs)]);
  const scrubber = createScrubber();
  for (const secret of secretsOf(settings)) scrubber.register(secret);
  const results: CheckResult[] = [];
  const add = (result: CheckResult): void => {
    if (['config', 'definitions'].includes(result.what)) return;
    results.push({ ...result, detail: scrubber.scrub(result.detail) });
  };
  try {
    const missing = settings.missing.filter(
      ({ path }) => !path.startsWith('connectors.') || path.startsWith(`connectors.${name}.`),
    );
    const one = withConnectors(withParts({ ...settings, missing }, 'access', 'redis'), [name]);
    await runChecks({ ...context, signal: within, pagesWithinMs: plannedPagesMs }, one, false, add);
  } catch (error) {
    context.signal.throwIfAborted();
    const late = skipped('more checks', `the ${roughly(plannedWithinMs)} for them are over`);
    add(within.aborted ? late : failed('check', error));
  }
  const isShared = ({ what, state }: CheckResult): boolean => state !== 'failed' && !ofConnector.test(what);
  return {
    results: results.filter((one) => !isShared(one)),
    /** Findings about what it shares with other connectors, such as Redis and the disk. */
    others: results.filter(isShared),
    atMs,
    tookMs: context.clock.now() - atMs,
  };
}

const passed = resultOf('ok');
const warning = resultOf('warning');
const skipped = resultOf('skipped');

const weakSecret = warning(
  'client secret',
  'it is short or an ordinary word: easy to guess, and not hidden where it stands in a message as a word; have the service give you a longer one',
);
const mebibyte = 1024 * 1024;
const leastFreeMiB = 100;

/**
 * Runs every check of `connector-sync check` and reports each at its end. Rejects when it is interrupted, and with
 * CONFIG_INVALID if something that they need is missing here.
 */
export async function runChecks(
  context: CheckContext,
  settings: SettingsWith<'access' | 'redis'>,
  isDeep: boolean,
  onResult: (result: CheckResult) => void,
): Promise<readonly CheckResult[]> {
  const { signal } = context;
  const results: CheckResult[] = [];
  const add = (...some: readonly CheckResult[]): void => {
    results.push(...some);
    for (const result of some) onResult(result);
  };
  add(passed('config', `${counted(settings.connectors.size, 'connector')} in ${settings.file}`));
  add(passed('definitions', [...settings.definitions.keys()].join(', ')));

  await using app = await openApp({ ...context, settings, command: 'connector-sync check' });
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
  add(...summarize(connectors, 'connectors'), ...summarize(pages, 'pages'));
  add(...summarize(await checkMasks(settings), 'masks'));
  add(...(await checkSinks(context, settings, isDeep)));
  add(...summarize(await checkCopies(settings), 'copies'));
  for (const target of settings.publish.values()) {
    add(await attempt(`target ${target.name}`, () => checkTarget(settings, target, context)));
  }
  add(...(await checkRedis(settings, context)));
  return results;
}

async function checkSinks(context: CheckContext, settings: LocalSettings, isDeep: boolean) {
  const files: CheckResult[] = [];
  const none = (): CheckResult[] => [];
  const found = { sinks: none(), servers: none(), disks: none(), purges: none() };
  await using progress = context.showProgress?.();
  const all = sinksOf([...settings.connectors.values()]);
  for (const [index, sink] of all.entries()) {
    context.signal.throwIfAborted();
    progress?.tell(`${count(index)} of ${counted(all.length, 'sink')} checked`);
    const opened = await attempt(`sink ${sink.name}`, async () => {
      const { place, connectors } = await checkWritable(sink, context);
      return `${place} can be written (${counted(connectors, 'connector')} in it)`;
    });
    found.sinks.push(opened);
    found.servers.push(...(await checkUnderneath(sink, opened.state === 'ok')));
    const what = `disk of ${sink.name}`;
    if (opened.state !== 'ok') {
      found.disks.push(skipped(what, 'the sink could not be opened'));
      continue;
    }
    found.disks.push(await attempt(what, () => checkDisk(sink)));
    files.push(...(await checkClosedFiles(context, settings, sink, isDeep)));
    for (const { connector, purgeWork } of (await readOverview(sink)).connectors.values()) {
      const text = unfinishedPurgeText(purgeWork, context.program);
      if (text !== '') found.purges.push(warning(`purge of ${connector}`, text));
    }
  }
  return [...Object.entries(found).flatMap(([many, results]) => summarize(results, many)), ...files];
}

/** Checks the systems that an unopened sink depends on, as far as they can be asked. */
async function checkUnderneath(sink: SinkSettings, isOpen: boolean) {
  try {
    const findings = await accessSink(sink).check();
    return findings
      .filter(({ state }) => isOpen || state !== 'ok')
      .map((finding) => ({ ...finding, what: `${finding.what} of ${sink.name}` }));
  } catch (error) {
    return isOpen ? [failed(`server of ${sink.name}`, error)] : [];
  }
}

async function checkDisk(sink: SinkSettings): Promise<string> {
  const bytes = await accessSink(sink).freeBytes();
  if (bytes === null) return 'free space on the server: unknown';
  const freeMiB = Math.floor(bytes / mebibyte);
  if (freeMiB < leastFreeMiB) {
    throw new Error(`expected at least ${leastFreeMiB} MiB free, got ${freeMiB} MiB`);
  }
  return `${count(freeMiB)} MiB free`;
}

/**
 * Reports incomplete copies, in every sink of the config (a sink may exist only for a copy), and connectors that have
 * left the sink that the config names for them. Both fail the next sync of the connector into that sink.
 */
async function checkCopies({ sinks, connectors }: LocalSettings): Promise<readonly CheckResult[]> {
  const results: CheckResult[] = [];
  for (const sink of sinks.values()) {
    const { unfinished, away } = await readCopies(sink);
    const isUsed = (name: ConnectorName): boolean => connectors.get(name)?.sink.name === sink.name;
    for (const copy of unfinished.values()) {
      const problem = failed(`copy of ${copy.connector}`, unfinishedCopyError(copy));
      results.push(isUsed(copy.connector) ? problem : { ...problem, state: 'warning' });
    }
    for (const copy of away.values()) {
      if (isUsed(copy.connector)) results.push(failed(`copy of ${copy.connector}`, copiedAwayError(copy)));
    }
  }
  return results;
}

/** Publishes nothing; the file that tests write access is removed again. */
async function checkTarget(settings: LocalSettings, target: PublishSettings, context: CheckContext) {
  checkTargets(settings, [target]);
  await withTarget(target, context, (opened) => opened.probe());
  const { newest, refusal } = await targetStatus(target, context);
  if (refusal !== null) throw refusal;
  if (newest === null) return `${target.type} can be written; nothing was published yet`;
  const { publication, createdAt } = newest.manifest;
  return `${target.type} can be written; publication ${publication} of ${createdAt}`;
}

/**
 * Checks the Redis of the config, if a schedule or shared rates use it. Without a schedule, a missing Redis fails
 * nothing.
 */
async function checkRedis(settings: SettingsWith<'redis'>, { clock }: Pick<CheckContext, 'clock'>) {
  const isScheduled = [...settings.connectors.values()].some(({ schedule }) => schedule !== null);
  if (!settings.redis.isConfigured && !isScheduled) return [];
  // Loaded here on demand: most checks need no Redis client.
  const { examineRedis } = await import('../jobs/connect-redis.ts');
  const findings = await examineRedis(settings.redis, clock);
  return findings.map((finding) =>
    finding.state === 'failed' && !isScheduled
      ? skipped(finding.what, `no schedule needs it, and rates are not shared without it: ${finding.detail}`)
      : finding,
  );
}

/**
 * Checks closed files: a line for each connector of the sink (one line for many without errors), and one for each
 * damaged file. Rejects when the command is interrupted.
 */
async function checkClosedFiles(
  context: CheckContext,
  settings: LocalSettings,
  sink: SinkSettings,
  isDeep: boolean,
): Promise<readonly CheckResult[]> {
  await using closed = await accessSink(sink).openClosedFiles();
  if (closed === null) {
    return isDeep ? [skipped(`files of ${sink.name}`, 'this sink closes none, so there are no hashes')] : [];
  }
  const { signal, program } = context;
  await using progress = isDeep ? context.showProgress?.() : undefined;
  const sound: CheckResult[] = [];
  const damaged: CheckResult[] = [];
  for (const { name, sink: own } of settings.connectors.values()) {
    if (own.name !== sink.name) continue;
    const what = `files of ${name}`;
    const onProgress: ComparedContents['onProgress'] = ({ files, allFiles, bytes, allBytes }) => {
      const read = `${count(Math.floor(bytes / mebibyte))} of ${count(Math.ceil(allBytes / mebibyte))} MiB`;
      progress?.tell(`${name}: ${count(files)} of ${counted(allFiles, 'closed file')} compared, ${read}`);
    };
    try {
      const checked = await closed.check(name, isDeep ? { signal, onProgress } : undefined);
      const all = counted(checked.files, 'closed file');
      if (checked.damaged.length === 0) {
        sound.push(passed(what, `${all}, ${isDeep ? 'content' : 'length'} as stored`));
        continue;
      }
      const named = checked.damaged.slice(0, mostNamed).map(damageText);
      const some = checked.damaged.length > mostNamed ? ` (${mostNamed} are named)` : '';
      const sum = `${count(checked.damaged.length)} of ${all} damaged${some}. ${damageAdvice(name, program)}`;
      for (const detail of [...named, sum]) damaged.push({ what, state: 'failed', detail });
    } catch (error) {
      signal.throwIfAborted();
      damaged.push(failed(what, error));
    }
  }
  return [...summarize(sound, `files of ${sink.name}`), ...damaged];
}

/** Reports values that the masks do not cover, one line each; if there are none, the masked entities. */
async function checkMasks({ connectors }: LocalSettings): Promise<readonly CheckResult[]> {
  const results: CheckResult[] = [];
  for (const connector of connectors.values()) {
    const { name, definition, entities, masks } = connector;
    if (masks.size === 0) continue;
    // Another line of `check` says why a sink cannot be read.
    const drift = (await readDrift(connector).catch(() => null)) ?? [];
    const undeclared = drift.filter(({ kind }) => kind === 'undeclared');
    const gaps = maskGaps(definition, entities, masks, undeclared);
    results.push(...gaps.map(({ entity, detail }) => warning(`mask of ${name}/${entity}`, detail)));
    if (gaps.length === 0) results.push(passed(`masks of ${name}`, firstNames([...masks.keys()])));
  }
  return results;
}

/** The number of connectors that are checked at the same time. */
const atATime = 8;
/** For the pages of all connectors together. */
const defaultPagesWithinMs = 120_000;

/**
 * Checks that each connector matches its sink and the API, and that its root entities return pages as its definition
 * says. Both in the order of the config.
 */
export async function checkConnectors(app: App, hasToken: boolean, context: CheckContext) {
  const { signal, clock, pagesWithinMs = defaultPagesWithinMs } = context;
  const connectors = [...app.settings.connectors.values()];
  await using progress = context.showProgress?.();
  const done = new AbortController();
  const over = new AbortController();
  void slept(clock, pagesWithinMs, done.signal).then((isOver) => isOver && over.abort());
  const parts = { ...context, app, hasToken, isOver: over.signal, pagesWithinMs };
  const results: Awaited<ReturnType<typeof checkConnector>>[] = [];
  try {
    await eachOf([...connectors.entries()], atATime, async ([index, connector]) => {
      signal.throwIfAborted();
      results[index] = await checkConnector(connector, parts);
      progress?.tell(`${count(index + 1)} of ${counted(connectors.length, 'connector')} checked`);
    });
  } finally {
    done.abort();
  }
  return {
    connectors: results.map(({ connector }) => connector),
    pages: results.flatMap(({ pages }) => pages),
  };
}

interface CheckParts extends CheckContext {
  readonly app: App;
  /** The API has issued a token. */
  readonly hasToken: boolean;
  /** Aborted when the time for pages is over. */
  readonly isOver: AbortSignal;
  readonly pagesWithinMs: number;
}

async function checkConnector(connector: ConnectorSettings, parts: CheckParts) {
  const { app, hasToken, signal } = parts;
  const what = `connector ${connector.name}`;
  const { address, definition, storedIn } = connector;
  const isDirect = address.kind === 'direct';
  let pages: readonly CheckResult[] = [];
  const result = await attempt(what, async () => {
    refuseTodos(connector.name, definition, connector.entities);
    const stored = await storedOrigin(storedIn);
    await checkAddress(connector, app, stored);
    if (!hasToken && !isDirect) return '';
    await using source = await app.openSource(connector, signal, { stored });
    const origin = await source.origin(signal);
    // Whether the sink holds records of another origin under this name, as a sync would find.
    const { baseUrl, connectorId } = origin;
    const given = { baseUrl, connectorId, definition: definition.name };
    const differences = stored === null ? [] : identityDifferences(stored, given);
    if (differences.length > 0) throw new IdentityChangedError(connector.name, differences);
    pages = await checkPages(connector, source, parts);
    const entities = counted(connector.entities.size, 'entity', 'entities');
    const isUntold = isDirect && !origin.isAccount;
    const account = isUntold ? `an account of ${baseUrl}` : `account ${connectorId}`;
    const answer = `${printable(isDirect ? account : connectorId)} answers (${definition.name}, ${entities})`;
    return [answer, isUntold ? untold : '', keylessText(connector)].filter((text) => text !== '').join('; ');
  });
  const isAsked = hasToken || isDirect || result.state !== 'ok';
  return { connector: isAsked ? result : skipped(what, 'no token'), pages };
}

const untold =
  'the definition has no identity, so that credentials of another account there are noticed by its records only';

/**
 * Requests the first page of each root entity of a connector, one after the other, until the time `isOver`: a line for
 * each that does not follow the definition, and one for the others. Entities below others cannot be checked before
 * their parents are read.
 */
async function checkPages(
  { name, address, definition, entities }: ConnectorSettings,
  source: ConnectorSource,
  { clock, isOver, pagesWithinMs, signal }: CheckParts,
): Promise<readonly CheckResult[]> {
  const roots = [...definition.entities.values()].filter(
    (entity) => entities.has(entity.name) && entity.parents.length === 0,
  );
  const results: CheckResult[] = [];
  const within = AbortSignal.any([signal, isOver]);
  let sound = 0;
  let empty = 0;
  for (const [index, entity] of roots.entries()) {
    const what = `page of ${name}/${entity.name}`;
    const chosen = entities.get(entity.name) ?? { variants: [] };
    try {
      within.throwIfAborted();
      const asked = { expectsTotal: address.kind === 'direct', nowMs: clock.now(), signal: within };
      const { records, problems } = await probePage(source, entity, chosen, asked);
      sound += Number(problems.length === 0);
      empty += Number(records === 0);
      results.push(...problems.map((detail) => warning(what, detail)));
    } catch (error) {
      signal.throwIfAborted();
      if (isOver.aborted || error instanceof ThrottledError) {
        const late = `the ${roughly(pagesWithinMs)} for all pages are over`;
        const why = error instanceof ThrottledError && !isOver.aborted ? error.message : late;
        const rest = counted(roots.length - index, 'root entity', 'root entities');
        results.push(skipped(`pages of ${name}`, `${rest} not asked: ${why}`));
        break;
      }
      // A sync leaves out this entity and reads the others.
      const isForbidden = hasCode(error, 'FORBIDDEN');
      results.push(isForbidden ? warning(what, error.message) : failed(what, error));
    }
  }
  if (sound === 0) return results;
  const some = empty === 0 ? '' : `, ${count(empty)} of them empty`;
  const all = counted(sound, 'root entity', 'root entities');
  return [passed(`pages of ${name}`, `${all} answered as the definition says${some}`), ...results];
}

/** The caller of the checks. */
export interface CheckContext {
  readonly clock: Clock;
  readonly signal: AbortSignal;
  /** The command that starts this program, for texts. */
  readonly program: string;
  /** The time for the pages of all connectors together, in milliseconds; default: two minutes. */
  readonly pagesWithinMs?: number;
  readonly onWait?: OnRunEvent;
  /** Shows the newest line of a part that may take minutes, until it is disposed. */
  readonly showProgress?: () => AsyncDisposable & { readonly tell: (line: string) => void };
}

/** One line of `check`. A warning names a possible later problem. */
export interface CheckResult {
  readonly what: string;
  readonly state: 'ok' | 'warning' | 'failed' | 'skipped';
  readonly detail: string;
  /** The code of a failure: problems of one code are of one kind. */
  readonly code?: ErrorCode;
}

/** The largest number of names in a line about problems of one kind, or about things that are right. */
const mostNamed = 20;

async function attempt(what: string, check: () => Promise<string>): Promise<CheckResult> {
  try {
    return passed(what, await check());
  } catch (error) {
    return failed(what, error);
  }
}

function failed(what: string, error: unknown): CheckResult {
  const code = error instanceof SyncError ? error.code : 'INTERNAL';
  return { what, state: 'failed', detail: error instanceof Error ? error.message : String(error), code };
}

function resultOf(state: CheckResult['state']) {
  return (what: string, detail: string): CheckResult => ({ what, state, detail });
}

/**
 * Summarizes the results of many similar checks (`many` names them): the number of successes if there are many, and for
 * each kind of problem the first ones and the number of others. A few results are listed one by one.
 */
function summarize(results: readonly CheckResult[], many: string): readonly CheckResult[] {
  if (results.length <= mostNamed) return results;
  const ofState = grouped(results, ({ state }) => state);
  const sound = ofState.get('ok')?.length ?? 0;
  const others = (['skipped', 'warning', 'failed'] as const).flatMap((state) => {
    const kinds = grouped(ofState.get(state) ?? [], ({ code }) => code);
    return [...kinds.values()].flatMap((kind) => firstOf(kind, many));
  });
  return sound === 0
    ? others
    : [passed(many, `${count(sound)} of ${count(results.length)} are right`), ...others];
}

const restTexts = { skipped: 'left out', warning: 'warnings of this kind', failed: 'problems of this kind' };

function firstOf(kind: readonly CheckResult[], many: string): readonly CheckResult[] {
  const [first] = kind;
  const more = kind.length - mostNamed;
  if (first === undefined || first.state === 'ok' || more <= 0) return kind;
  const code = first.code === undefined ? '' : ` (${first.code})`;
  const rest = { ...first, what: many, detail: `${count(more)} more ${restTexts[first.state]}${code}` };
  return [...kind.slice(0, mostNamed), rest];
}
