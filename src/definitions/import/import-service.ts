import { parseDefinition } from '../load-definitions.ts';
import { judgeEntities, type EntityPlan, type Outcome } from './entity-plan.ts';
import { listingsOf, unlistedEntities, type ModeName, type Sources } from './sent-values.ts';
import { authorizationCodeWays, signInWays, type SignIn } from './sign-in.ts';
import { serverOf, type ServiceFile } from './service-file.ts';
import { writeDefinition } from './write-definition.ts';

export type Imported = ReturnType<typeof importService>;

/** Makes a definition of a file for one mode. `only`: entities to convert, with the parents they need; null: all. */
export function importService(service: ServiceFile, mode: ModeName, only: readonly string[] | null) {
  const ways = signInWays(service);
  const sources = sourcesOf(service, ways);
  const judged = judgeEntities(mode, sources);
  const server = serverOf(service);
  const outcomes = mode === 'hosted' ? judged : reachable(judged, ways, server);
  const chosen = only === null ? outcomes : chosenOf(outcomes, only, service);
  const read = [...chosen].flatMap(([entity, { kind }]) => (kind === 'converted' ? [entity] : []));
  const all = mode === 'hosted' ? ways : [...ways, ...authorizationCodeWays(service, ways, server, read)];
  const write = (plans: readonly EntityPlan[]) => writeDefinition(service, mode, plans, all, server);
  /** The address for calls with the credentials; null: an API, or not known. */
  const baseUrl = mode === 'direct' && server.kind === 'found' ? server.baseUrl : null;
  return { mode, ways: all, baseUrl, ...passing(chosen, write) };
}

/**
 * Writes the entities that pass the check of definitions: an entity with a problem is refused with that problem, and
 * its children in the next round. A problem outside of the entities refuses them all.
 */
function passing(
  outcomes: ReadonlyMap<string, Outcome>,
  write: (plans: readonly EntityPlan[]) => ReturnType<typeof writeDefinition>,
) {
  const current = new Map(outcomes);
  for (;;) {
    const plans = [...current.values()].flatMap((one) => (one.kind === 'converted' ? [one.plan] : []));
    // Every entity with a listing has an outcome.
    if (plans.length === 0) return { outcomes: current, definition: null };
    const definition = write(plans);
    const { problems } = parseDefinition(`${definition.name}.yaml`, definition.text);
    if (problems.length === 0) return { outcomes: current, definition };
    for (const { path, message } of problems) {
      const named = /^(?:upstream\.)?entities\.([^.]+)\./.exec(path)?.[1];
      const concerned = plans.filter(({ entity }) => entity === named);
      for (const { entity } of concerned.length > 0 ? concerned : plans) {
        if (current.get(entity)?.kind !== 'converted') continue;
        current.set(entity, { kind: 'refused', why: `not a valid definition: ${path}: ${message}` });
      }
    }
  }
}

function sourcesOf(service: ServiceFile, ways: readonly SignIn[]): Sources {
  return {
    service,
    signedHeaders: new Set(
      ways.flatMap(({ headers }) => [...headers.keys()].map((name) => name.toLowerCase())),
    ),
    getOf: (entity) =>
      service.operations.find((one) => one.action === 'get' && one.entity === entity) ?? null,
    listings: listingsOf(service),
  };
}

/** Refuses direct reading where the address or a way to sign in is missing. */
function reachable(
  judged: ReadonlyMap<string, Outcome>,
  ways: readonly SignIn[],
  server: ReturnType<typeof serverOf>,
): ReadonlyMap<string, Outcome> {
  const unsigned = ways.every(({ auth }) => auth === null);
  if (!unsigned && server.kind === 'found') return judged;
  const reason = ways[0]?.why ?? 'the file has none; write one into components.securitySchemes of a copy';
  const why =
    server.kind === 'refused' && !unsigned ? server.why : `no way to sign in can be used: ${reason}`;
  return new Map(
    [...judged].map(([entity, outcome]) => [
      entity,
      outcome.kind === 'refused' ? outcome : { kind: 'refused', why },
    ]),
  );
}

/** The chosen entities and, above them, the parents that lead to them; one that has no listing is refused. */
function chosenOf(
  outcomes: ReadonlyMap<string, Outcome>,
  only: readonly string[],
  service: ServiceFile,
): ReadonlyMap<string, Outcome> {
  const wanted = new Set<string>();
  const want = (entity: string): void => {
    if (wanted.has(entity)) return;
    wanted.add(entity);
    const outcome = outcomes.get(entity);
    const parents: EntityPlan['parents'] = outcome?.kind === 'converted' ? outcome.plan.parents : [];
    for (const { parent } of parents) want(parent.entity);
  };
  for (const entity of only) want(entity);
  const unlisted = unlistedEntities(service).filter(({ entity }) => wanted.has(entity));
  const chosen = new Map<string, Outcome>();
  for (const [entity, outcome] of outcomes) {
    chosen.set(entity, wanted.has(entity) ? outcome : { kind: 'notChosen' });
  }
  for (const { entity, why } of unlisted) chosen.set(entity, { kind: 'refused', why });
  return chosen;
}
