import { parseDefinition } from '../load-definitions.ts';
import { judgeEntities, type EntityPlan, type Outcome } from './entity-plan.ts';
import type { Paging } from './paging.ts';
import { listingsOf, unlistedEntities, type ModeName, type Sources } from './sent-values.ts';
import { serverOf, type ServiceFile } from './service-file.ts';
import { authorizationCodeWays, signInWays, type SignIn } from './sign-in-ways.ts';
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

/** Counts the entities by result. */
export interface Totals {
  readonly entities: number;
  readonly converted: number;
  /** Converted ones with a `# TODO`. */
  readonly open: number;
  readonly refused: number;
  readonly notChosen: number;
}

export function totalsOf({ outcomes }: Pick<Imported, 'outcomes'>): Totals {
  const all = [...outcomes.values()];
  const kinds = all.map(({ kind }) => kind);
  const count = (kind: Outcome['kind']): number => kinds.filter((one) => one === kind).length;
  return {
    entities: kinds.length,
    converted: count('converted'),
    open: all.filter((one) => wordOf(one) === 'todo').length,
    refused: count('refused'),
    notChosen: count('notChosen'),
  };
}

/** `todo`: converted with guesses. */
export function wordOf(outcome: Outcome): Outcome['kind'] | 'todo' {
  return outcome.kind === 'converted' && outcome.plan.open.length > 0 ? 'todo' : outcome.kind;
}

/** `2 entities, 1 converted, 1 with a TODO, 0 refused`, as far as a person chose them. */
export function totalsText({ converted, open, refused, notChosen }: Totals): string {
  const others = notChosen === 0 ? '' : `, ${notChosen} not chosen (--only)`;
  return `${converted - open} converted, ${open} with a TODO, ${refused} refused${others}`;
}

const pagingWords: Readonly<Record<Exclude<Paging['kind'], 'single'>, string>> = {
  token: 'pages by token',
  address: 'pages by the next address',
  page: 'pages by number',
  offset: 'pages by offset',
  lastRecord: 'pages by the last record',
};

/** The result for a cell of a table. */
export function kindText(outcome: Outcome): string {
  const word = wordOf(outcome);
  return word === 'todo' ? 'TODO' : word === 'notChosen' ? 'not chosen' : word;
}

/** Describes the result for an entity in one line. */
export function outcomeText(outcome: Outcome): string {
  switch (outcome.kind) {
    case 'converted': {
      const { key, paging, parents, fields, list, open } = outcome.plan;
      if (open.length > 0) return open.map(({ text }) => text).join('; ');
      const above = parents.map(({ parent }) => parent.entity).join(', ');
      const isNested = fields.declared.some(({ name }) => name === 'has_children');
      return [
        `key ${key.join(', ') || 'none'}`,
        paging.kind === 'single' ? 'one page' : pagingWords[paging.kind],
        ...(above === '' ? [] : [`below ${above}`]),
        ...(list.isDeprecated ? ['deprecated by the file'] : []),
        ...(isNested ? ['listings inside its listings are not read'] : []),
      ].join('; ');
    }
    case 'refused':
      return outcome.why;
    case 'notChosen':
      return 'left out by --only';
  }
}
