import { isDeepStrictEqual } from 'node:util';
import type { EntityName } from '../../core/names.ts';
import { ProblemsError } from '../../core/problems.ts';
import type { Definition, Entity } from '../definition.ts';
import { loadDefinition, parseDefinition } from '../load-definitions.ts';
import { readYaml } from '../read-yaml.ts';
import { fillTemplate, type Template } from '../upstream/template.ts';
import type { Imported } from './import-service.ts';

/**
 * What an import changes against an earlier one: a definition file, or an OpenAPI file that is imported in the same
 * way. Throws `ProblemsError` for a file that is neither.
 */
export function importChanges(
  file: string,
  imports: readonly Imported[],
  importOld: (file: string) => readonly Imported[],
): readonly string[] {
  const { data, problems } = readYaml(file);
  if (problems.length > 0) throw new ProblemsError('DEFINITION_INVALID', problems, 'The file of --diff');
  const isService = typeof data === 'object' && data !== null && Object.hasOwn(data, 'openapi');
  if (isService) {
    const earlier = importOld(file);
    return imports.flatMap((one) => {
      const old = earlier.find(({ mode }) => mode === one.mode);
      return changesOf(one, old === undefined ? null : definitionIn(old));
    });
  }
  const before = loadDefinition(file);
  const mode = before.upstream === null ? 'hosted' : 'direct';
  return imports.filter((one) => one.mode === mode).flatMap((one) => changesOf(one, before));
}

function changesOf(one: Imported, before: Definition | null): readonly string[] {
  const after = definitionIn(one);
  const name = after?.name ?? before?.name ?? one.mode;
  return definitionChanges(before, after).map((change) => `${name}: ${change}`);
}

function definitionIn({ definition }: Imported): Definition | null {
  return definition === null ? null : parseDefinition(`${definition.name}.yaml`, definition.text).definition;
}

/** What a new file of a definition changes, as sentences; none, if nothing is read or stored in another way. */
function definitionChanges(before: Definition | null, after: Definition | null): readonly string[] {
  if (before === null || after === null) {
    if (before === after) return [];
    return [
      before === null
        ? 'the definition is new'
        : 'the definition is no longer written: no entity is converted',
    ];
  }
  const changes = [...after.entities.values()].flatMap((entity) => {
    const old = before.entities.get(entity.name);
    return old === undefined
      ? [`${entity.name}: comes`]
      : [...entityChanges(old, entity), ...requestChanges(entity.name, before, after)];
  });
  const gone = [...before.entities.keys()].filter((name) => !after.entities.has(name));
  const reread =
    before.contentHash === after.contentHash
      ? 'nothing is read again'
      : 'the next sync reads every entity again in full';
  return [
    ...serviceChanges(before, after),
    ...changes,
    ...gone.map((name) => `${name}: goes; its stored rows stay as they are`),
    reread,
  ];
}

/** Where credentials go, and how they do. */
function serviceChanges(before: Definition, after: Definition): readonly string[] {
  const changes: string[] = [];
  const address = addressChange(before, after);
  if (address !== null) changes.push(`address changes from ${address.from} to ${address.to}`);
  if (!isDeepStrictEqual(before.upstream?.host, after.upstream?.host)) {
    changes.push('what credentials may put into the address changes');
  }
  const titles = ({ credentials }: Definition): readonly string[] => credentials.map(({ title }) => title);
  for (const title of titles(before)) {
    if (!titles(after).includes(title)) changes.push(`way to sign in goes: ${title}`);
  }
  for (const way of after.credentials) {
    const old = before.credentials.find(({ title }) => title === way.title);
    if (old === undefined) changes.push(`way to sign in comes: ${way.title}`);
    else if (
      !isDeepStrictEqual(old, way) ||
      !isDeepStrictEqual(before.upstream?.auth.get(way.title), after.upstream?.auth.get(way.title))
    ) {
      changes.push(`way to sign in changes: ${way.title}`);
    }
  }
  if (!isDeepStrictEqual(before.upstream?.check, after.upstream?.check)) {
    changes.push('the request that checks the credentials changes');
  }
  return changes;
}

/** Of the service itself, to which credentials are sent; null: it is the same, or one of them names none. */
export function addressChange(
  before: Definition,
  after: Definition,
): { readonly from: string; readonly to: string } | null {
  if (before.upstream === null || after.upstream === null) return null;
  const [from, to] = [templateText(before.upstream.baseUrl), templateText(after.upstream.baseUrl)];
  return from === to ? null : { from, to };
}

function templateText(template: Template): string {
  return fillTemplate(template, (name) => `{${name}}`);
}

/** What is sent to the service itself for an entity. */
function requestChanges(name: EntityName, before: Definition, after: Definition): readonly string[] {
  const old = before.upstream?.entities.get(name);
  const now = after.upstream?.entities.get(name);
  if (old === undefined || now === undefined) return [];
  const path = ({ list }: typeof old): string => templateText(list.path);
  const changes: string[] = [];
  if (path(old) !== path(now)) changes.push(`${name}: path changes from ${path(old)} to ${path(now)}`);
  const { path: _old, paging: oldPaging, ...oldRest } = old.list;
  const { path: _now, paging: nowPaging, ...nowRest } = now.list;
  const isPaged = before.entities.get(name)?.pagination.kind === after.entities.get(name)?.pagination.kind;
  if (isPaged && !isDeepStrictEqual(oldPaging, nowPaging)) {
    changes.push(`${name}: paging changes (${oldPaging.kind} to ${nowPaging.kind}), read again in full`);
  }
  if (isPaged && !isDeepStrictEqual(oldRest, nowRest)) changes.push(`${name}: its request changes`);
  return changes;
}

function entityChanges(before: Entity, after: Entity): readonly string[] {
  const { name } = after;
  const changes: string[] = [];
  if (before.key.join(' ') !== after.key.join(' ')) {
    const from = before.key.join(', ');
    changes.push(
      `${name}: its key was ${from} and is ${after.key.join(', ')}: a sync refuses that until "reset --data" has removed its rows`,
    );
  }
  for (const [column, type] of after.fields) {
    const old = before.fields.get(column);
    if (old === undefined) changes.push(`${name}: column ${column} comes (${type})`);
    else if (old !== type) changes.push(`${name}: column ${column} was ${old} and is ${type}`);
  }
  const gone = [...before.fields.keys()].filter((column) => !after.fields.has(column));
  changes.push(...gone.map((column) => `${name}: column ${column} goes; new values stay in _extra`));
  if (!isDeepStrictEqual(before.pagination, after.pagination)) {
    const how = pagingChange(before.pagination, after.pagination);
    changes.push(`${name}: paging changes (${how}), read again in full`);
  }
  const parents = ({ parents: all }: Entity): string => all.map(({ entity }) => entity).join(' ');
  if (parents(before) !== parents(after)) changes.push(`${name}: it is found by other parents`);
  if (!isDeepStrictEqual(before.fixedParams, after.fixedParams)) {
    changes.push(`${name}: values sent with every call change`);
  }
  return changes;
}

/** `pageToken to page`, or what differs within one kind: `maxSize 50 to 100`. */
function pagingChange(before: Entity['pagination'], after: Entity['pagination']): string {
  if (before.kind !== after.kind) return `${before.kind} to ${after.kind}`;
  const [old, now] = [new Map(Object.entries(before)), new Map(Object.entries(after))];
  const names = [...new Set([...old.keys(), ...now.keys()])];
  return names
    .filter((name) => !isDeepStrictEqual(old.get(name), now.get(name)))
    .map((name) => `${name} ${valueText(old.get(name))} to ${valueText(now.get(name))}`)
    .join(', ');
}

function valueText(value: unknown): string {
  return value === undefined ? 'none' : typeof value === 'string' ? value : JSON.stringify(value);
}
