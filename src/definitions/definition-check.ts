import { timeMs } from '../core/clock.ts';
import { isConnectorName } from '../core/names.ts';
import type { FieldType } from '../core/records.ts';
import { buildAction, pagingParams } from './definition.ts';
import { checkParams } from './params.ts';
import { checkActions, checkReading } from './reading-check.ts';
import {
  checkKey,
  checkName,
  checkRemoteName,
  checkDeclared,
  namePattern,
  placeAt,
  openEntityCheck,
  type Note,
  type EntityCheck,
} from './check-names.ts';
import type { DefinitionFile, EntityFile } from './definition-file.ts';
import { isReservedName, type YamlPath } from './read-yaml.ts';
import { noSuch, suggestName } from './suggest-name.ts';
import { oneIsSingle, checkUpstream } from './upstream-check.ts';
import { pathText, recordsPlace } from './upstream/service-texts.ts';
import { givenNames } from './upstream/upstream.ts';

/** Checks the parts of one definition against each other; every problem goes to `note`. */
export function checkDefinition(file: DefinitionFile, note: Note): void {
  if (!isConnectorName(file.name)) {
    note(['name'], `expected ${namePattern('_ or -')}, got ${JSON.stringify(file.name)}`);
  }
  if (Object.keys(file.entities).length === 0) note(['entities'], 'expected at least one entity');
  for (const [name, entity] of Object.entries(file.entities)) {
    const check = openEntityCheck(entity, ['entities', name], note);
    checkName(name, [], check.note);
    checkFields(check);
    checkActions(check);
    checkExplode(check);
    checkRecursive(check);
    checkReading(check);
    checkOnly(check, file.settings);
    checkEach(check, file.settings);
    checkSearchable(check);
    checkDescribed(check);
  }
  checkTables(file, note);
  checkParents(file, note);
  checkReferences(file, note);
  checkErrorPatterns(file, note);
  checkCredentials(file, note);
  checkSettings(file, note);
  checkFirst(file, note);
  if (file.upstream !== null) checkUpstream(file, file.upstream, placeAt(note, ['upstream']));
}

function checkFields(check: EntityCheck): void {
  const { entity, note } = check;
  const declared = Object.keys(entity.fields);
  for (const name of declared) checkName(name, ['fields', name], note);
  check.fields(['key'], entity.key);
  checkKey(entity.key, (part) => entity.fields[part], ['key'], note);
  entity.ignored.forEach((name, index) => {
    if (!declared.includes(name)) return;
    const message = `${name} is declared as a field: a field is stored or ignored, not both`;
    note(['ignored', index], message);
  });
  entity.volatile.forEach((path, index) => checkVolatile(check, path, ['volatile', index]));
  for (const [field, source] of Object.entries(entity.filledFrom)) checkFilled(check, field, source);
  for (const [field, revealed] of Object.entries(entity.reveals)) {
    for (const name of [field, ...revealed]) check.field(['reveals', field], name);
  }
  checkRenamed(check);
  for (const [field, path] of Object.entries(entity.at ?? {})) {
    check.field(['at', field], field);
    if (path.split('.')[0] === field) check.note(['at', field], 'expected a path in another member');
    if ([entity, ...entity.parents].some(({ inject = {} }) => Object.hasOwn(inject, field))) {
      check.note(['at', field], `${field} is filled in from the listing: leave one of them out`);
    }
  }
  checkLater(check);
  checkRecords(check);
  if (entity.order !== null) check.field(['order', 'field'], entity.order.field);
}

function checkVolatile({ entity, note, field }: EntityCheck, path: string, at: YamlPath): void {
  const [first = '', ...rest] = path.split('.');
  if (first === '*' && rest.length === 0) {
    note(at, 'expected at least one field to stay in the content hash, got all of them');
  }
  if (first !== '*') field(at, first);
  if (rest.length === 0 && entity.key.includes(first)) {
    note(at, `${first} is part of the key: it cannot be left out of the content hash`);
  }
}

/** Checks the place of the records in an API's results: the entity's setting, if it has one. */
function checkRecords({ entity: { records, pagination }, note, field }: EntityCheck): void {
  if (records === undefined) return;
  const { path, members, isOne, map } = recordsPlace(records);
  const keyInto = map?.keyInto ?? null;
  if (keyInto !== null) field(['records', 'keyInto'], keyInto, ['string', 'integer']);
  if (isOne && pagination.kind !== 'single') note(['records'], oneIsSingle(pagination));
  if (path.length > 0 || isOne) return;
  const what = members.length === 0 ? 'a path' : 'a path before [*]';
  note(['records'], `expected ${what}: a result that is an array is read as it is`);
}

/**
 * Checks `addedLater`: the content hash treats these fields differently from other declared ones. A rule that cannot
 * work would let every row seem to have changed.
 */
function checkLater({ entity, note, fields }: EntityCheck): void {
  const { addedLater, explode, key } = entity;
  fields(['addedLater'], addedLater);
  addedLater.forEach((name, index) => {
    const at = ['addedLater', index];
    if (name === explode?.field) note(at, `${name} is exploded: it has no column`);
    if (key.includes(name)) note(at, `${name} is part of the key: it was there from the start`);
  });
}

/** Checks a field that is filled in after hashing: it can be neither part of the key nor hashed separately. */
function checkFilled(check: EntityCheck, field: string, source: string): void {
  const { entity, note } = check;
  const at = ['filledFrom', field];
  check.field(at, field);
  if (entity.key.includes(field)) note(at, `${field} is part of the key: it cannot be a copy`);
  if (field === entity.explode?.field) note(at, `${field} is exploded: it cannot be a copy`);
  if (entity.ignored.includes(source)) {
    note(at, `${source} is ignored: a change of it would not be seen`);
  }
  checkRemoteName(source, at, note);
}

function checkTables(file: DefinitionFile, note: Note): void {
  const taken = new Set(Object.keys(file.entities));
  for (const [name, { explode }] of Object.entries(file.entities)) {
    if (explode !== null && taken.has(explode.into)) {
      note(['entities', name, 'explode', 'into'], `another table is already named ${explode.into}`);
    }
    if (explode !== null) taken.add(explode.into);
  }
}

function checkErrorPatterns(file: DefinitionFile, note: Note): void {
  const known = Object.keys(file.entities);
  file.errors.forEach(({ entity }, index) => {
    if (entity !== null && !known.includes(entity)) {
      note(['errors', index, 'entity'], noSuch('entity', entity, known));
    }
  });
}

/** Checks the ways to sign in: each has a unique title and, unless it is none, at least one required field. */
function checkCredentials(file: DefinitionFile, note: Note): void {
  const titles = file.credentials.map(({ title }) => title);
  for (const [index, { title, fields }] of file.credentials.entries()) {
    const at = ['credentials', index];
    if (titles.indexOf(title) !== index) {
      note([...at, 'title'], `${JSON.stringify(title)} is the title of two ways to sign in`);
    }
    for (const name of Object.keys(fields)) {
      checkRemoteName(name, [...at, 'fields', name], note);
    }
    const isNone = Object.keys(fields).length === 0 && file.upstream?.auth[title]?.kind === 'none';
    if (!isNone && ![fields, file.settings].some((some) => Object.values(some).some(isRequired))) {
      note(
        [...at, 'fields'],
        'expected at least one field that is required, or no field and auth of kind none',
      );
    }
  }
}

function isRequired({ required }: { readonly required: boolean }): boolean {
  return required;
}

/** Checks the settings that say where reading begins. */
function checkFirst({ settings, entities }: DefinitionFile, note: Note): void {
  for (const [name, { incremental }] of Object.entries(entities)) {
    const first = incremental !== null && 'first' in incremental ? incremental.first : undefined;
    if (first === undefined || typeof first === 'string') continue;
    const at = ['entities', name, 'incremental', 'first', 'field'];
    const setting = settings[first.field];
    if (setting === undefined) note(at, noSuch('setting', first.field, Object.keys(settings)));
    else if (setting.secret) note(at, `expected a setting that is not secret, ${first.field} is`);
    else if (setting.default !== null && timeMs(setting.default) === null) {
      const got = JSON.stringify(setting.default);
      note(['settings', first.field, 'default'], `expected a time such as 2024-01-01, got ${got}`);
    } else if (incremental?.kind === 'windows' && !setting.required && setting.default === null) {
      note(at, `expected ${first.field} to be required, or to have a default: windows begin somewhere`);
    }
  }
}

/** Checks that each setting differs from the credentials by name, is used, and has a default that it allows. */
function checkSettings({ settings, credentials, upstream, entities }: DefinitionFile, note: Note): void {
  const used = givenNames([upstream, entities]);
  for (const [name, { secret, default: usual, values }] of Object.entries(settings)) {
    const at = ['settings', name];
    checkRemoteName(name, at, note);
    if (credentials.some(({ fields }) => Object.hasOwn(fields, name))) {
      note(at, `${name} is also a field of the credentials: give it another name`);
    }
    if (!used.includes(name)) note(at, `nothing uses it: name it in upstream, such as { field: ${name} }`);
    if (usual === null) continue;
    if (secret) note([...at, 'default'], 'expected no default: a secret does not belong in a definition');
    if (values?.includes(usual) === false) {
      note([...at, 'default'], `expected one of ${values.join(', ')}, got ${JSON.stringify(usual)}`);
    }
  }
}

/** Checks the conditions for records: each compares a field, or what is in one, with values. */
function checkOnly(check: EntityCheck, settings: DefinitionFile['settings']): void {
  const { only } = check.entity;
  const isList = Array.isArray(only);
  (isList ? only : [only ?? []].flat()).forEach(({ field, value, values, setting }, index) => {
    const at = isList ? ['only', index] : ['only'];
    const [first = '', ...inner] = field.split('.');
    if (inner.length === 0) check.field([...at, 'field'], field);
    else check.field([...at, 'field'], first, ['object', 'any']);
    if ([value, values, setting].filter((one) => one !== undefined).length !== 1) {
      check.note(at, 'expected value, values or setting, one of them');
    }
    if (setting !== undefined) checkSetting(check, setting, settings, [...at, 'setting']);
  });
}

/** Checks a setting that decides which records are read: it belongs to the identity of the source. */
function checkSetting(
  { note }: EntityCheck,
  name: string,
  settings: DefinitionFile['settings'],
  at: YamlPath,
): void {
  const setting = Object.hasOwn(settings, name) ? settings[name] : undefined;
  if (setting === undefined) note(at, noSuch('setting', name, Object.keys(settings)));
  else if (setting.secret) note(at, `expected a setting that is not secret: ${name} decides what is read`);
  else if (!setting.required && setting.default === null) {
    note(at, `expected ${name} to be required, or to have a default`);
  }
}

/** Checks the lists of values that divide the listings: parameters that nothing else fills, of values that fit. */
function checkEach(check: EntityCheck, settings: DefinitionFile['settings']): void {
  const { entity, note } = check;
  const { each = {}, inject = {} } = entity;
  const list = buildAction(entity.actions.list ?? { params: {}, key: {} });
  const takenBy = takenParams(entity);
  for (const [name, values] of Object.entries(each)) {
    const at = ['each', name];
    check.param(at, name, ['string', 'integer', 'boolean']);
    const other = takenBy.get(name);
    if (other !== undefined) note(at, `is also set by ${other}: it cannot have two values`);
    if (!Array.isArray(values)) checkSetting(check, values.field, settings, [...at, 'field']);
    else if (list.params.has(name)) {
      checkValues(values, (value) => checkParams(list, { [name]: value }), at, note);
    }
    if (entity.isKeyless === true && !Object.values(inject).includes(name)) {
      note(at, 'expected a field of inject that it fills: without a key, equal records would be one');
    }
  }
  if (entity.recursive !== null && Object.keys(each).length > 0) {
    note(['each'], 'expected no tree: its listings are divided by its records');
  }
  const filling = [...Object.keys(each), ...windowParams(entity)];
  for (const [field, name] of Object.entries(inject)) {
    check.field(['inject', field], field);
    if (!filling.includes(name)) {
      note(['inject', field], noSuch('parameter of each or of windows', name, filling));
    }
    if (entity.parents.some((parent) => Object.hasOwn(parent.inject, field))) {
      note(['inject', field], 'is also filled in by a parent');
    }
  }
}

/** The parameters that bound a window of the calendar; empty where the entity has none. */
function windowParams({ incremental }: Pick<EntityFile, 'incremental'>): readonly string[] {
  if (incremental?.kind !== 'windows') return [];
  const { fromParam, toParam } = incremental;
  return toParam === null ? [fromParam] : [fromParam, toParam];
}

function checkValues(
  values: readonly (string | number | boolean)[],
  problemsWith: (value: string | number | boolean) => readonly string[],
  at: YamlPath,
  note: Note,
): void {
  values.forEach((value, index) => {
    for (const message of problemsWith(value)) note([...at, index], message);
    if (value === '') note([...at, index], 'expected a value, got an empty text');
    const isSame = (other: unknown): boolean => String(other) === String(value);
    if (values.findIndex(isSame) !== index) note([...at, index], `${String(value)} is named twice`);
  });
}

/** The list parameters that other parts of an entity set, by name. */
function takenParams({ pagination, fixedParams, order, incremental, window, parents }: EntityFile) {
  const { firstParams = {} } = { firstParams: {}, ...pagination };
  const changes = { params: {}, sinceParam: '', ...incremental };
  return new Map(
    Object.entries({
      pagination: [...pagingParams(pagination).map(({ name }) => name), ...Object.keys(firstParams)],
      fixedParams: Object.keys(fixedParams),
      order: Object.keys(order?.params ?? {}),
      incremental: [...Object.keys(changes.params), changes.sinceParam],
      window: Object.values(window ?? {}),
      parents: parents.flatMap((parent) => Object.keys(parent.params)),
    }).flatMap(([by, names]) => names.map((name) => [name, by] as const)),
  );
}

/** Checks the service's names that become fields: each field is declared, and none occurs twice. */
function checkRenamed({ entity: { rename = {} }, note, field }: EntityCheck): void {
  const renamed = Object.values(rename);
  for (const [index, [from, to]] of Object.entries(rename).entries()) {
    const at = ['rename', from];
    field(at, to);
    if (renamed.indexOf(to) !== index) note(at, `${to} has two names`);
  }
}

/** Checks an array whose elements become rows of a separate table. */
function checkExplode(check: EntityCheck): void {
  const { entity, note } = check;
  const { explode } = entity;
  if (explode === null) return;
  checkName(explode.into, ['explode', 'into'], note);
  check.field(['explode', 'field'], explode.field, ['array']);
  const { carry, fields, key } = explode;
  check.fields(['explode', 'carry'], carry);
  for (const field of Object.keys(fields)) {
    const at = ['explode', 'fields', field];
    checkName(field, at, note);
    if (carry.includes(field)) note(at, 'is also carried over from the record: rename or drop one');
  }
  const keyAt = ['explode', 'key'];
  const known = [...carry, ...Object.keys(fields)];
  key.forEach((name, index) => {
    if (!known.includes(name)) note([...keyAt, index], noSuch('field', name, known));
  });
  checkKey(key, (name) => fields[name] ?? entity.fields[name], keyAt, note);
}

type ParentFile = EntityFile['parents'][number];

/** Checks that parents exist, precede their children, and say where every required parameter comes from. */
function checkParents(file: DefinitionFile, note: Note): void {
  const names = Object.keys(file.entities);
  for (const [name, entity] of Object.entries(file.entities)) {
    const check = openEntityCheck(entity, ['entities', name], note);
    const at = ['entities', name, 'parents'];
    if (entity.parents.length === 0) checkRequired(check, null);
    if (entity.parents.length > 0 && !entity.parents.some((parent) => parent.byDefault)) {
      note(at, 'expected at least one parent that is byDefault, or this entity is never read');
    }
    entity.parents.forEach((parent, index) => {
      const here = [...at, index, 'entity'];
      const target = file.entities[parent.entity];
      if (target === undefined || !Object.hasOwn(file.entities, parent.entity)) {
        note(here, noSuch('entity', parent.entity, names));
        return;
      }
      if (entity.parents.findIndex((other) => other.entity === parent.entity) !== index) {
        note(here, `${parent.entity} is named twice`);
      }
      if (names.indexOf(parent.entity) >= names.indexOf(name)) {
        const message = `expected ${parent.entity} above ${name} in the file: parents come before their children, and no entity is its own parent`;
        note(here, message);
      }
      checkParent(check, parent, index, (path, where, types) => {
        const [field = '', ...inner] = path.split('.');
        const expected = inner.length === 0 ? types : ['object', 'any'];
        const noteHere = (message: string): void => note([...at, index, ...where], message);
        checkDeclared(`field of ${parent.entity}`, target.fields, field, noteHere, expected);
      });
    });
  }
}

/** `parentField` checks a field of the parent, or a dotted path in one. */
function checkParent(
  check: EntityCheck,
  { params, inject, when, marker }: ParentFile,
  index: number,
  parentField: (path: string, at: YamlPath, types?: readonly string[]) => void,
): void {
  const { entity, note } = check;
  const at = ['parents', index];
  for (const [param, field] of Object.entries(params)) {
    const here = [...at, 'params', param];
    check.param(here, param);
    if (entity.actions.list?.params[param]?.required === false) {
      note(here, 'expected a required list parameter: only those tell partitions apart');
    }
    if (typeof field === 'string') parentField(field, ['params', param]);
    else parentField(field.path, ['params', param, 'path'], ['string', 'any']);
  }
  checkRequired(check, index);
  for (const [field, param] of Object.entries(inject)) {
    const here = [...at, 'inject', field];
    check.field(here, field);
    if (!Object.hasOwn(params, param)) {
      const given = Object.keys(params).join(', ');
      note(here, `expected a parameter that this parent fills (${given}), got ${param}`);
    }
  }
  when.forEach(({ field }, position) => parentField(field, ['when', position, 'field']));
  // A marker is compared as a text and parsed as a time.
  if (marker !== null) parentField(marker.field, ['marker', 'field'], ['string']);
}

/** Checks the required parameters of one parent, or of an entity without parents where `index` is null. */
function checkRequired({ entity, note }: EntityCheck, index: number | null): void {
  const bounds = windowParams(entity);
  const filled = index === null ? {} : (entity.parents[index]?.params ?? {});
  const at = index === null ? ['actions', 'list'] : ['parents', index, 'params'];
  for (const [name, { required }] of Object.entries(entity.actions.list?.params ?? {})) {
    if (!required || bounds.includes(name)) continue;
    if (![filled, entity.fixedParams, entity.each ?? {}].some((some) => Object.hasOwn(some, name))) {
      note(at, `nothing fills the required list parameter ${name}: name it in parents, each or fixedParams`);
    }
  }
}

const treeFields = [
  ['flag', ['boolean']],
  ['parentField', ['object', 'any']],
  ['typeField', ['string']],
  ['rootField', ['string']],
  ['depthField', ['integer']],
  ['positionField', ['integer']],
] as const;

/** Checks listings inside listings: the fields that identify them and the fields that are filled in. */
function checkRecursive({ entity, note, field, param: checkParam }: EntityCheck): void {
  const { recursive } = entity;
  if (recursive === null) return;
  for (const [role, types] of treeFields) field(['recursive', role], recursive[role], types);
  const { param, rootField } = recursive;
  checkParam(['recursive', 'param'], param);
  if (entity.parents.length === 0) {
    note(['recursive'], 'expected parents: a tree begins at a parent record');
  }
  entity.parents.forEach((parent, index) => {
    if (!Object.hasOwn(parent.params, param)) {
      note(['parents', index, 'params'], `expected ${param}, which begins the tree`);
    }
    if (parent.inject[rootField] !== param) {
      const at = ['parents', index, 'inject'];
      const message = `expected ${rootField}: ${param}, which names the tree in every record`;
      note(at, message);
    }
  });
}

/** Checks that each reference leads from a declared field to a field of an entity that has no reference itself. */
function checkReferences({ entities }: DefinitionFile, note: Note): void {
  for (const [name, entity] of Object.entries(entities)) {
    const check = openEntityCheck(entity, ['entities', name], note);
    for (const [path, target] of Object.entries(entity.references)) {
      const at = ['references', path];
      const noteHere = (message: string): void => check.note(at, message);
      pathText(path, noteHere);
      check.field(at, path.split('.')[0] ?? path);
      if (entity.parents.some(({ inject }) => Object.hasOwn(inject, path))) {
        noteHere(`${path} is filled in by parents, which say where it leads: leave it out`);
      }
      const [owner = '', field = '', ...more] = target.split('.');
      const found = Object.hasOwn(entities, owner) ? entities[owner] : undefined;
      if (field === '' || more.length > 0) {
        noteHere(`expected an entity and its field, such as lists.id, got ${JSON.stringify(target)}`);
      } else if (found === undefined) {
        noteHere(noSuch('entity', owner, Object.keys(entities)));
      } else if (Object.hasOwn(found.references, field)) {
        noteHere(`${target} itself refers to ${found.references[field] ?? ''}: name that`);
      } else checkDeclared(`field of ${owner}`, found.fields, field, noteHere);
    }
  }
}

const nameInPath = /^(?:\*|[A-Za-z0-9_-]+)$/;
/** Names that people give to properties may contain any visible character. */
const unpackedName = /^[^\p{C}]{1,200}$/u;
const jsonTypes = ['object', 'array', 'any'] as const;

/** Checks the descriptions of fields, and the derived columns of views. */
function checkDescribed({ entity, note, field }: EntityCheck): void {
  const exploded = Object.keys(entity.explode?.fields ?? {});
  const declared = Object.keys(entity.fields);
  for (const name of Object.keys(entity.descriptions)) {
    if (declared.includes(name) || exploded.includes(name)) continue;
    note(['descriptions', name], noSuch('field', name, [...declared, ...exploded]));
  }
  const checkColumn = (name: string, at: YamlPath): void => {
    checkName(name, at, note);
    if (declared.includes(name)) note(at, `${name} is a field: give the column another name`);
  };
  const checkSource = (source: string, at: YamlPath, types?: readonly FieldType[]): void => {
    field(at, source, types);
    if (source === entity.explode?.field) note(at, `${source} is exploded: it has no column`);
  };
  for (const [name, { from }] of Object.entries(entity.unpack)) {
    const at = ['unpack', name];
    checkColumn(name, at);
    if (name in entity.derived) note(at, `${name} is named in derived too`);
    const [source = '', ...steps] = from.split('.');
    checkSource(source, [...at, 'from'], steps.length === 0 ? undefined : jsonTypes);
    if (steps.length > 8 || !steps.every((step) => unpackedName.test(step))) {
      const message = 'expected a field, and up to 8 names in it, joined by dots, such as merge_fields.PHONE';
      note([...at, 'from'], `${message}, got ${JSON.stringify(from)}`);
    }
  }
  for (const [name, { from, path }] of Object.entries(entity.derived)) {
    const at = ['derived', name];
    checkColumn(name, at);
    from.forEach((source, index) => checkSource(source, [...at, 'from', index], jsonTypes));
    const steps = path.split('.');
    if (steps.length > 8 || !steps.every((step) => nameInPath.test(step))) {
      const message = 'expected up to 8 names or * joined by dots, such as *.title.*.plain_text';
      note([...at, 'path'], `${message}, got ${JSON.stringify(path)}`);
    }
  }
}

/**
 * Checks the fields of the indexed store. Their source may be undeclared (such fields are kept in `_extra`), so only
 * fields that are never stored and likely typing errors are problems.
 */
function checkSearchable({ entity, note }: EntityCheck): void {
  const fields: Readonly<Record<string, string>> = { ...entity.fields, ...entity.explode?.fields };
  const known = Object.keys(fields);
  for (const [name, { type, shape, from }] of Object.entries(entity.searchable)) {
    const at = ['searchable', name];
    checkRemoteName(name, at, note);
    const isPairs = shape === 'pairs';
    if (isPairs && type !== 'array') note([...at, 'type'], `expected array beside shape: pairs, got ${type}`);
    for (const [index, source] of (from ?? (isPairs ? [name] : [])).entries()) {
      const here = [...at, 'from', index];
      const found = Object.hasOwn(fields, source) ? fields[source] : undefined;
      if (entity.ignored.includes(source)) {
        note(here, `${source} is ignored: it is not stored, and nothing can be made from it`);
      } else if (source === entity.explode?.field) {
        note(here, `${source} is exploded: name the fields of its elements`);
      } else if (from !== undefined && found === undefined) {
        const isSlip = isReservedName(source) || suggestName(source, known) !== '';
        if (isSlip) note(here, noSuch('field', source, known));
      }
      if (isPairs && found !== undefined && found !== 'object' && found !== 'any') {
        note([...at, 'shape'], `pairs are made from objects; ${source} is of type ${found}`);
      }
    }
  }
}
