import { parseDefinition } from '../load-definitions.ts';
import { judgeEntities, type EntityPlan, type Outcome, type Plan } from './entity-plan.ts';
import { textIn } from './schemas.ts';
import { listingsOf, type ModeName, type Sources } from './sent-values.ts';
import { serverOf, type ServiceFile } from './service-file.ts';
import { authorizationCodeWays, signInWays, type SignIn } from './sign-in-ways.ts';
import { writeDefinition } from './write-definition.ts';

/** The result of an import; `definition`: null where no entity is converted. */
export interface Imported {
  readonly mode: ModeName;
  readonly ways: readonly SignIn[];
  readonly baseUrl: string | null;
  readonly outcomes: ReadonlyMap<string, Outcome>;
  readonly definition: { readonly name: string; readonly text: string } | null;
}

/** Makes a definition of a file for one mode. */
export function importService(service: ServiceFile, mode: ModeName) {
  const ways = signInWays(service);
  const sources = sourcesOf(service, ways);
  const judged = judgeEntities(mode, sources);
  const server = serverOf(service);
  const outcomes = mode === 'hosted' ? judged : signed(judged, ways);
  const read = [...outcomes].flatMap(([entity, { kind }]) => (kind === 'converted' ? [entity] : []));
  const all = mode === 'hosted' ? ways : [...ways, ...authorizationCodeWays(service, ways, server, read)];
  const write = (plans: readonly EntityPlan[]) => writeDefinition(service, mode, plans, all, server);
  /** The address for calls with the credentials; null: an API, or not known. */
  const baseUrl = mode === 'direct' ? server.baseUrl : null;
  return { mode, ways: all, baseUrl, ...passing(outcomes, write) };
}

/**
 * Writes the entities that pass the check of definitions: an entity with a problem is refused with that problem, and
 * its children in the next round. A problem outside of the entities refuses them all, if no other is left.
 */
export function passing<Converted extends Plan>(
  outcomes: ReadonlyMap<string, Outcome<Converted>>,
  write: (plans: readonly Converted[]) => { readonly name: string; readonly text: string },
) {
  const current = new Map(outcomes);
  for (;;) {
    const plans = [...current.values()].flatMap((one) => (one.kind === 'converted' ? [one.plan] : []));
    // Every entity with a listing has an outcome.
    if (plans.length === 0) return { outcomes: current, definition: null };
    const definition = write(plans);
    const { problems } = parseDefinition(`${definition.name}.yaml`, definition.text);
    if (problems.length === 0) return { outcomes: current, definition };
    const concerned = (path: string): readonly Converted[] => {
      const named = /^(?:upstream\.)?entities\.([^.]+)\./.exec(path)?.[1];
      return plans.filter(({ entity }) => entity === named);
    };
    // Another problem may only follow from those, such as one of the check, which is the request of an entity.
    const own = problems.filter(({ path }) => concerned(path).length > 0);
    for (const { path, message } of own.length > 0 ? own : problems) {
      for (const { entity } of own.length > 0 ? concerned(path) : plans) {
        if (current.get(entity)?.kind !== 'converted') continue;
        current.set(entity, { kind: 'refused', why: `not a valid definition: ${path}: ${message}` });
      }
    }
  }
}

/** The operations without the parameters that a way to sign in sends. */
function sourcesOf(service: ServiceFile, ways: readonly SignIn[]): Sources {
  const signed = new Set(
    ways.flatMap(({ headers, auth }) => [
      ...[...headers.keys()].map((name) => `header ${name.toLowerCase()}`),
      `${textIn(auth ?? {}, 'kind')} ${textIn(auth ?? {}, 'name')?.toLowerCase()}`,
    ]),
  );
  const operations = service.operations.map((operation) => ({
    ...operation,
    params: operation.params.filter(({ place, sent }) => !signed.has(`${place} ${sent.toLowerCase()}`)),
  }));
  return {
    service,
    getOf: (entity) => operations.find((one) => one.action === 'get' && one.entity === entity) ?? null,
    listings: listingsOf({ operations }),
  };
}

/** Refuses direct reading without a way to sign in. */
function signed(judged: ReadonlyMap<string, Outcome<EntityPlan>>, ways: readonly SignIn[]) {
  if (ways.some(({ auth }) => auth !== null)) return judged;
  const reason = ways[0]?.why ?? 'the file has none; write one into components.securitySchemes of a copy';
  const refused = { kind: 'refused', why: `no way to sign in can be used: ${reason}` } as const;
  return new Map(
    [...judged].map(([entity, outcome]) => [entity, outcome.kind === 'refused' ? outcome : refused]),
  );
}

/** Counts the entities by result. `open`: converted ones with a `# TODO`. */
export function totalsOf({ outcomes }: { readonly outcomes: ReadonlyMap<string, Outcome> }) {
  const words = [...outcomes.values()].map(wordOf);
  const [open = 0, refused = 0] = ['todo', 'refused'].map(
    (word) => words.filter((one) => one === word).length,
  );
  return { entities: words.length, converted: words.length - refused, open, refused };
}

/** The result in a word; `todo`: converted with guesses. */
export function wordOf(outcome: Outcome): Outcome['kind'] | 'todo' {
  return outcome.kind === 'converted' && outcome.plan.open.length > 0 ? 'todo' : outcome.kind;
}

/** Describes the result for an entity in one line. */
export function outcomeText(outcome: Outcome): string {
  if (outcome.kind === 'refused') return outcome.why;
  const { open, summary } = outcome.plan;
  return open.length > 0 ? open.map(({ text }) => text).join('; ') : summary;
}
