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
/** The ids of runs in a text, for `split`. */
export const runIds = /\b(\d{8}T\d{9}Z-[0-9a-f]{8})\b/;

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
