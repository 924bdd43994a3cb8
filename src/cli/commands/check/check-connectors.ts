import type { ConnectorSource, App } from '../../../app/app.ts';
import { checkAddress, storedOrigin } from '../../../app/connector-address.ts';
import { type Clock, slept } from '../../../core/clock.ts';
import { eachOf } from '../../../core/each-of.ts';
import { hasCode, ThrottledError } from '../../../core/errors.ts';
import { refuseTodos } from '../../../definitions/todos.ts';
import { probePage } from '../../../engine/try-listing.ts';
import type { ConnectorSettings } from '../../../settings/settings.ts';
import { identityDifferences, IdentityChangedError } from '../../../sinks/acquire-errors.ts';
import { type ConnectorSummary, isOfType } from '../../../source/api/catalog-calls.ts';
import type { ApiClient } from '../../../source/api/open-api-client.ts';
import { count, counted, printable } from '../../../telemetry/format.ts';
import { keylessText } from '../../../wording/keyless-text.ts';
import { everyWorkspace } from '../../find-in-workspaces.ts';
import {
  warning,
  failed,
  passed,
  skipped,
  type CheckContext,
  type CheckResult,
  openCheckProgress,
  attempt,
} from './check-result.ts';

/** Connectors checked at the same time: most answers come from a list that was read before. */
const atATime = 8;
/** For the pages of all connectors together. */
const pageMinutes = 2;

/**
 * Whether each connector is what its sink has stored and what the API knows, and its root entities give pages as its
 * definition says. Both in the order of the config.
 */
export async function checkConnectors(app: App, hasToken: boolean, context: CheckContext) {
  const { signal, clock } = context;
  const connectors = [...app.settings.connectors.values()];
  using progress = openCheckProgress(context);
  const client = hasToken
    ? await openListingClient(app, connectors, signal, (lists) =>
        progress.tell(() => `${counted(lists, 'workspace')} listed`),
      )
    : null;
  const done = new AbortController();
  const over = new AbortController();
  void slept(clock, pageMinutes * 60_000, done.signal).then((isOver) => isOver && over.abort());
  const results: Awaited<ReturnType<typeof checkConnector>>[] = [];
  try {
    await eachOf([...connectors.entries()], atATime, async ([index, connector]) => {
      signal.throwIfAborted();
      const parts = { app, client, clock, isOver: over.signal, signal };
      results[index] = await checkConnector(connector, parts);
      progress.tell(() => `${count(index + 1)} of ${counted(connectors.length, 'connector')} checked`);
    });
  } finally {
    done.abort();
  }
  return {
    connectors: results.map(({ connector }) => connector),
    pages: results.flatMap(({ pages }) => pages),
  };
}

interface CheckParts {
  readonly app: App;
  readonly client: ApiClient | null;
  readonly clock: Clock;
  /** Aborted when the time for pages is over. */
  readonly isOver: AbortSignal;
  readonly signal: AbortSignal;
}

async function checkConnector(connector: ConnectorSettings, parts: CheckParts) {
  const { app, client, signal } = parts;
  const what = `connector ${connector.name}`;
  const { address, definition, storedIn } = connector;
  const isDirect = address.kind === 'direct';
  let pages: readonly CheckResult[] = [];
  const result = await attempt(what, async () => {
    refuseTodos(connector.name, definition, connector.entities);
    const stored = await storedOrigin(storedIn);
    await checkAddress(connector, app, stored);
    if (client === null && !isDirect) return '';
    const known = client === null ? { stored } : { stored, client };
    await using source = await app.openSource(connector, signal, known);
    const origin = await source.origin(signal);
    // As a sync would find it: whether the sink holds records of another origin under this name.
    const { baseUrl, connectorId } = origin;
    const given = { baseUrl, connectorId, definition: definition.name };
    const differences = stored === null ? [] : identityDifferences(stored, given);
    if (differences.length > 0) throw new IdentityChangedError(connector.name, differences);
    pages = await checkPages(connector, source, parts);
    const entities = counted(connector.entities.size, 'entity', 'entities');
    const isUntold = isDirect && !origin.isAccount;
    const account = isUntold ? `an account of ${baseUrl}` : `account ${connectorId}`;
    const who = isDirect ? account : connectorId;
    const notes = [isUntold ? untold : '', keylessText(connector)].filter((note) => note !== '');
    return [`${printable(who)} answers (${definition.name}, ${entities})`, ...notes].join('; ');
  });
  const isAsked = client !== null || isDirect || result.state !== 'ok';
  return { connector: isAsked ? result : skipped(what, 'no token'), pages };
}

const untold =
  'the definition has no identity, so that credentials of another account there are noticed by its records only';

/**
 * The app's client, which answers for connectors from the lists of their workspaces: a call for each workspace, not one
 * for each connector. Where the config names ids, the workspaces of the account are looked through, if they are fewer
 * than the ids; a connector in none of these lists is asked for by itself. `onListed` hears how many lists are read.
 */
async function openListingClient(
  app: App,
  connectors: readonly ConnectorSettings[],
  signal: AbortSignal,
  onListed: (lists: number) => void,
): Promise<ApiClient> {
  const { client } = app;
  const listed = new Map<string, ConnectorSummary>();
  const isId = ({ address }: ConnectorSettings): boolean => address.kind === 'id';
  const ids = connectors.filter(isId).length;
  const workspaces = ids < 2 ? [] : await workspacesOfIds(app, ids, signal);
  for (const [index, workspace] of workspaces.entries()) {
    onListed(index);
    const list = await orNone(client.findConnectors({ workspace }, signal), signal);
    for (const found of list) listed.set(found.id, found);
  }
  return {
    ...client,
    findConnectors: async ({ workspace, definitionId }, callSignal) =>
      (await client.findConnectors({ workspace }, callSignal)).filter((found) =>
        isOfType(found, definitionId),
      ),
    connector: async (id, callSignal, asked) =>
      listed.get(id) ?? (await client.connector(id, callSignal, asked)),
  };
}

/**
 * None where there are as many as ids: a list for each saves nothing. A service that does not list them is no mistake
 * of the config.
 */
async function workspacesOfIds(app: App, ids: number, signal: AbortSignal): Promise<readonly string[]> {
  const { access } = app.settings;
  if (access === null) return [];
  const found = await orNone(everyWorkspace(app, access, signal), signal);
  return found.length < ids ? found : [];
}

/** Connectors that are not listed are asked for one by one, and each says what is wrong. */
async function orNone<One>(list: Promise<readonly One[]>, signal: AbortSignal): Promise<readonly One[]> {
  try {
    return await list;
  } catch {
    signal.throwIfAborted();
    return [];
  }
}

/**
 * Asks each root entity of a connector for its first page, one after the other, until the time `isOver`: a line for
 * each that is not as the definition says, and one for the others. Of entities below others nothing is known before
 * their parents are read.
 */
async function checkPages(
  { name, address, definition, entities }: ConnectorSettings,
  source: ConnectorSource,
  { clock, isOver, signal }: Pick<CheckParts, 'clock' | 'isOver' | 'signal'>,
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
      const why = isOver.aborted
        ? `the ${pageMinutes} minutes for all pages are over`
        : error instanceof ThrottledError
          ? error.message
          : null;
      if (why !== null) {
        const rest = counted(roots.length - index, 'root entity', 'root entities');
        results.push(skipped(`pages of ${name}`, `${rest} not asked: ${why}`));
        break;
      }
      // A sync leaves it out and reads the others.
      const isForbidden = hasCode(error, 'FORBIDDEN');
      results.push(isForbidden ? warning(what, error.message) : failed(what, error));
    }
  }
  if (sound === 0) return results;
  const some = empty === 0 ? '' : `, ${count(empty)} of them empty`;
  const all = counted(sound, 'root entity', 'root entities');
  return [passed(`pages of ${name}`, `${all} answered as the definition says${some}`), ...results];
}
