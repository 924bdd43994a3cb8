declare const brand: unique symbol;
type Branded<Name extends string> = string & { readonly [brand]: Name };

/** The name a user gives a connector in the config file; also a table-name prefix and a directory name. */
export type ConnectorName = Branded<'ConnectorName'>;
/** The id the API knows a connector by; travels in URLs, so only `[A-Za-z0-9_-]{1,128}`. */
export type ConnectorId = Branded<'ConnectorId'>;
export type EntityName = Branded<'EntityName'>;
/** Sortable: time first, then random. */
export type RunId = Branded<'RunId'>;

/** An entity of a connector. */
export type OfEntity = { readonly connector: ConnectorName; readonly entity: EntityName };
export type OfEntities = { readonly connector: ConnectorName; readonly entities: readonly EntityName[] };

export const maxNameLength = 40;
const declaredName = /^[a-z][a-z0-9]*(_[a-z0-9]+)*$/;
const connectorName = /^[a-z][a-z0-9]*([_-][a-z0-9]+)*$/;
const connectorId = /^[A-Za-z0-9_-]{1,128}$/;
const runId = /^\d{8}T\d{9}Z-[0-9a-f]{8}$/;

export function isDeclaredName(text: string): text is EntityName {
  return text.length <= maxNameLength && declaredName.test(text);
}

/** Columns that every table of PostgreSQL has: no other can have their names there, and a sink may be copied. */
export const systemColumns: ReadonlySet<string> = new Set([
  'ctid',
  'xmin',
  'xmax',
  'cmin',
  'cmax',
  'tableoid',
]);

const historySuffix = '__history';

/** The versions of an entity's rows, as they are published: a name that no entity has. */
export function historyName(entity: EntityName): EntityName {
  return `${entity}${historySuffix}` as EntityName;
}

/** The entity whose versions have this name; null where it is no such name. */
export function entityOfHistory(name: string): EntityName | null {
  const entity = name.endsWith(historySuffix) ? name.slice(0, -historySuffix.length) : '';
  return isDeclaredName(entity) ? entity : null;
}

/** True for the name of an entity, and of an entity's versions. */
export function isPublishedName(name: string): name is EntityName {
  return isDeclaredName(name) || entityOfHistory(name) !== null;
}

export function isConnectorName(text: string): text is ConnectorName {
  return text.length <= maxNameLength && connectorName.test(text);
}

export function isConnectorId(text: string): text is ConnectorId {
  return connectorId.test(text);
}

export function isRunId(text: string): text is RunId {
  return runId.test(text);
}

/** Whether a name matches the glob: `*` is any text, every other character is itself. In linear time for every glob. */
export function isLikeGlob(name: string, glob: string): boolean {
  const [first = '', ...rest] = glob.split('*');
  const last = rest.pop();
  if (last === undefined) return name === glob;
  if (!name.startsWith(first)) return false;
  let at = first.length;
  for (const text of rest) {
    const found = name.indexOf(text, at);
    if (found === -1) return false;
    at = found + text.length;
  }
  return at + last.length <= name.length && name.endsWith(last);
}

/** Characters as people count them in limits: code points, so that an emoji is one. Stops counting behind `most`. */
export function hasAtMostCharacters(text: string, most: number): boolean {
  if (text.length <= most) return true;
  return text.length <= 2 * most && Array.from(text).length <= most;
}

/** The first so many characters; never half of one. */
export function firstCharacters(text: string, count: number): string {
  return Array.from(text.slice(0, 2 * count))
    .slice(0, count)
    .join('');
}
