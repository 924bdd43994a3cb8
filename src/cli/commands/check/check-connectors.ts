import { knownOverviews } from '../../list-page.ts';
import type { ConnectorSource, App } from '../../../app/app.ts';
import { overviewOf, type SinkOverview } from '../../../app/connector-states.ts';
import { hasCode, ThrottledError } from '../../../core/errors.ts';
import { probePage } from '../../../engine/probe-page.ts';
import type { ConnectorSettings } from '../../../settings/settings.ts';
import { identityDifferences, IdentityChangedError } from '../../../sinks/acquire-errors.ts';
import type { ConnectorSummary } from '../../../source/api/catalog-calls.ts';
import { openAdministration } from '../../../source/api/open-administration.ts';
import type { ApiClient } from '../../../source/api/open-api-client.ts';
import { isAccount } from '../../../source/connector-origin.ts';
import { count, counted, printable } from '../../../telemetry/format.ts';
import type { CommandContext } from '../../command.ts';
import {
  warning,
  failed,
  passed,
  skipped,
  type CheckResult,
  openCheckProgress,
  attempt,
} from './check-result.ts';

/** Connectors checked at the same time: most answers come from a list that was read before. */
const atATime = 8;
/** For the pages of all connectors together. */
const pageMinutes = 2;

export interface CheckedConnectors {
  /** In the order of the config, as the pages are. */
  readonly connectors: readonly CheckResult[];
  readonly pages: readonly CheckResult[];
}

/**
 * Whether each connector is what its sink has stored and what the API knows, and its root entities give pages as its
 * definition says.
 */
export async function checkConnectors(
  app: App,
  hasToken: boolean,
  context: CommandContext,
): Promise<CheckedConnectors> {
  const { signal, clock } = context;
  const connectors = [...app.settings.connectors.values()];
  // A sink that cannot be read has a line of its own, which says why.
  const stored = await knownOverviews(connectors);
  using progress = openCheckProgress(context);
  const client = hasToken
    ? await openListingClient(app, connectors, signal, (lists) =>
        progress.tell(() => `${counted(lists, 'workspace')} listed`),
      )
    : null;
  const done = new AbortController();
  const over = new AbortController();
  // Only `done` ends the sleep early.
  clock.sleep(pageMinutes * 60_000, done.signal).then(
    () => over.abort(),
    () => undefined,
  );
  const time: PageTime = { isOver: over.signal, minutes: pageMinutes };
  const results: { connector: CheckResult; pages: readonly CheckResult[] }[] = [];
  const waiting = connectors.entries();
  const work = async (): Promise<void> => {
    // One iterator for all: each takes the next one.
    for (const [index, connector] of waiting) {
      signal.throwIfAborted();
      results[index] = await checkConnector(app, connector, client, stored, time, signal);
      progress.tell(() => `${count(index + 1)} of ${counted(connectors.length, 'connector')} checked`);
    }
  };
  try {
    await Promise.all(Array.from({ length: atATime }, work));
  } finally {
    done.abort();
  }
  return {
    connectors: results.map(({ connector }) => connector),
    pages: results.flatMap(({ pages }) => pages),
  };
}

async function checkConnector(
  app: App,
  connector: ConnectorSettings,
  client: ApiClient | null,
  stored: ReadonlyMap<string, SinkOverview>,
  time: PageTime,
  signal: AbortSignal,
): Promise<{ readonly connector: CheckResult; readonly pages: readonly CheckResult[] }> {
  const what = `connector ${connector.name}`;
  const { address, definition } = connector;
  const isDirect = address.kind === 'direct';
  const identity = overviewOf(stored, connector)?.identity ?? null;
  /** As a sync would find it: whether the sink holds records of another origin under this name. */
  const checkIdentity = (origin: { readonly baseUrl: string; readonly connectorId: string }): void => {
    const given = { ...origin, definition: definition.name };
    const differences = identity === null ? [] : identityDifferences(identity, given);
    if (differences.length > 0) throw new IdentityChangedError(connector.name, differences);
  };
  const { access } = app.settings;
  let pages: readonly CheckResult[] = [];
  const result = await attempt(what, async () => {
    // Known without a call, unless only the API knows which account the connector has.
    if (identity !== null && !isDirect && access !== null && !isAccount(identity)) {
      const connectorId = address.kind === 'id' ? address.id : identity.connectorId;
      checkIdentity({ baseUrl: access.baseUrl, connectorId });
    }
    if (client === null && !isDirect) return '';
    await using source = await app.openSource(connector, signal, client === null ? {} : { client });
    const origin = await source.origin(signal);
    checkIdentity(origin);
    pages = await checkPages(connector, source, time, signal);
    const entities = counted(connector.entities.size, 'entity', 'entities');
    const who = isDirect ? `account ${origin.connectorId}` : origin.connectorId;
    return `${printable(who)} answers (${definition.name}, ${entities})`;
  });
  const isAsked = client !== null || isDirect || result.state !== 'ok';
  return { connector: isAsked ? result : skipped(what, 'no token'), pages };
}

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
    for (const found of await listOf(client, workspace, signal)) listed.set(found.id, found);
  }
  return {
    ...client,
    findConnectors: async ({ workspace, definitionId }, callSignal) =>
      (await client.findConnectors({ workspace }, callSignal)).filter(
        (found) =>
          definitionId === undefined ||
          found.definitionId === null ||
          found.definitionId.toLowerCase() === definitionId.toLowerCase(),
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
  const { baseUrl, scopedToWorkspace } = access;
  if (scopedToWorkspace !== null) return [scopedToWorkspace];
  try {
    const filter = { nameContains: null, status: null };
    const found = await openAdministration(app.client, baseUrl).workspaces(filter, signal);
    return found.length < ids ? found.map(({ name }) => name) : [];
  } catch {
    signal.throwIfAborted();
    return [];
  }
}

async function listOf(
  client: ApiClient,
  workspace: string,
  signal: AbortSignal,
): Promise<readonly ConnectorSummary[]> {
  try {
    return await client.findConnectors({ workspace }, signal);
  } catch {
    // Its connectors are asked for one by one, and each says what is wrong.
    signal.throwIfAborted();
    return [];
  }
}

/** Of the pages that all connectors are asked for. */
export interface PageTime {
  /** Aborted when no more pages are to be waited for. */
  readonly isOver: AbortSignal;
  readonly minutes: number;
}

/**
 * Asks each root entity of a connector for its first page, one after the other: a line for each that is not as the
 * definition says, and one for the others. Of entities below others nothing is known before their parents are read.
 */
export async function checkPages(
  { name, address, definition, entities }: ConnectorSettings,
  source: ConnectorSource,
  time: PageTime,
  signal: AbortSignal,
): Promise<readonly CheckResult[]> {
  const roots = [...definition.entities.values()].filter(
    (entity) => entities.has(entity.name) && entity.parents.length === 0,
  );
  const results: CheckResult[] = [];
  const within = AbortSignal.any([signal, time.isOver]);
  let sound = 0;
  let empty = 0;
  for (const [index, entity] of roots.entries()) {
    const what = `page of ${name}/${entity.name}`;
    const chosen = entities.get(entity.name) ?? { variants: [] };
    try {
      within.throwIfAborted();
      const asked = { expectsTotal: address.kind === 'direct', signal: within };
      const { records, problems } = await probePage(source, entity, chosen, asked);
      sound += Number(problems.length === 0);
      empty += Number(records === 0);
      results.push(...problems.map((detail) => warning(what, detail)));
    } catch (error) {
      signal.throwIfAborted();
      const why = time.isOver.aborted
        ? `the ${time.minutes} minutes for all pages are over`
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
