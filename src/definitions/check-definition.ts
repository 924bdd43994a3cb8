import { isConnectorName } from '../core/names.ts';
import { checkActions } from './check-actions.ts';
import { checkDescribed } from './check-described.ts';
import {
  checkKey,
  checkName,
  checkRemoteName,
  checkRenamed,
  checkTwice,
  namePattern,
  type Note,
  type EntityCheck,
  fieldAt,
  openEntityCheck,
} from './check-names.ts';
import { checkParents, checkRecursive } from './check-parents.ts';
import { checkReading } from './check-reading.ts';
import { checkReferences } from './check-references.ts';
import { checkSearchable } from './check-searchable.ts';
import type { DefinitionFile } from './definition-file.ts';
import { noSuch, suggestName } from './suggest-name.ts';
import type { YamlPath } from './read-yaml.ts';
import { oneIsSingle } from './upstream/check-paging.ts';
import { checkUpstream } from './upstream/check-upstream.ts';
import { recordsPlace } from './upstream/records-file.ts';

/** Holds the parts of one definition against each other; every problem goes to `note`. */
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
    checkSearchable(check);
    checkDescribed(check);
  }
  checkTables(file, note);
  checkParents(file, note);
  checkReferences(file, note);
  checkErrorPatterns(file, note);
  checkCredentials(file, note);
  if (file.upstream !== null) checkUpstream(file, file.upstream, note);
}

function checkFields(check: EntityCheck): void {
  const { entity, note } = check;
  const declared = Object.keys(entity.fields);
  for (const name of declared) checkName(name, fieldAt(name), note);
  check.fields(['key'], entity.key);
  checkKey(
    entity.key,
    (part) => entity.fields[part],
    ['key'],
    note,
    (name) => [fieldAt(name)],
  );
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
  checkRenamed(entity.rename ?? {}, entity.rename ?? {}, declared, ['rename'], ['fields'], note);
  checkLater(check);
  checkRecords(check);
  for (const where of ['order', 'only'] as const) {
    const name = entity[where]?.field;
    if (name !== undefined) check.field([where, 'field'], name);
  }
}

function checkVolatile({ entity, note, field }: EntityCheck, path: string, at: YamlPath): void {
  const [first = '', ...rest] = path.split('.');
  if (first === '' || rest.includes('')) {
    note(at, `expected names joined by dots, got ${JSON.stringify(path)}`);
    return;
  }
  if (first === '*' && rest.length === 0) {
    note(at, 'expected at least one field to stay in the content hash, got all of them');
  }
  if (first !== '*') field(at, first);
  if (rest.length === 0 && entity.key.includes(first)) {
    note(at, `${first} is part of the key: it cannot be left out of the content hash`);
  }
}

/** Where an API's results have the records: the entity's own, if it says so. */
function checkRecords({ entity: { records, pagination }, note }: EntityCheck): void {
  if (records === undefined) return;
  const { path, member, isOne } = recordsPlace(records);
  if (isOne && pagination.kind !== 'single') note(['records'], oneIsSingle(pagination), ['pagination']);
  if (path.length > 0 || isOne) return;
  const what = member === null ? 'a path' : 'a path before [*]';
  note(['records'], `expected ${what}: a result that is an array is read as it is`);
}

/** What counts in the content hash in another way than a declared value does. */
function checkLater({ entity, note, field, fields }: EntityCheck): void {
  const { addedLater, key, explode, moved } = entity;
  const at = ['addedLater'];
  fields(at, addedLater);
  checkTwice(addedLater, at, note);
  addedLater.forEach((name, index) => {
    if (key.includes(name)) note([...at, index], `${name} is part of the key: it was there from the start`);
    if (name === explode?.field) note([...at, index], `${name} is exploded: it has no column`);
    if (entity.volatile.includes(name)) {
      note([...at, index], `${name} is volatile as a whole: it is in no content hash`, ['volatile']);
    }
  });
  for (const [name, { from, to }] of Object.entries(moved)) {
    const here = ['moved', name];
    field(here, name, ['string']);
    if (key.includes(name)) note(here, `${name} is part of the key: it cannot move`);
    if (addedLater.includes(name)) note(here, `${name} is among addedLater: name it in one place`);
    if (from === to) note([...here, 'to'], 'expected another beginning than from');
  }
}

/** What is filled in after a record is hashed can be neither its key nor a part that is hashed apart. */
function checkFilled(check: EntityCheck, field: string, source: string): void {
  const { entity, note } = check;
  const at = ['filledFrom', field];
  check.field(at, field);
  if (entity.key.includes(field)) note(at, `${field} is part of the key: it cannot be a copy`);
  if (field === entity.explode?.field) note(at, `${field} is exploded: it cannot be a copy`);
  if (entity.volatile.some((path) => path.split('.')[0] === field)) {
    note(at, `${field} is volatile: a copy is left out of the content hash anyway`, ['volatile']);
  }
  if (source === field) note(at, `expected another field than ${field} itself`);
  if (entity.ignored.includes(source)) {
    note(at, `${source} is ignored: a change of it would not be seen`, ['ignored']);
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
      note(['errors', index, 'entity'], noSuch('entity', entity, known), ['entities', entity]);
    }
  });
}

/** The ways to sign in: each has a unique title and at least one required field. */
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
    if (!Object.values(fields).some(({ required }) => required)) {
      note([...at, 'fields'], 'expected at least one field that is required', [...at, 'fields']);
    }
  }
}

/** An array whose elements become rows of a separate table. */
function checkExplode(check: EntityCheck): void {
  const { entity, note } = check;
  const { explode } = entity;
  if (explode === null) return;
  const declared = Object.keys(entity.fields);
  checkName(explode.into, ['explode', 'into'], note);
  const type = entity.fields[explode.field];
  if (type !== 'array') {
    const got =
      type === undefined
        ? `there is no field ${JSON.stringify(explode.field)}${suggestName(explode.field, declared)}`
        : `${explode.field} is of type ${type}`;
    note(['explode', 'field'], `expected an array field; ${got}`, fieldAt(explode.field));
  }
  const { carry, fields, key } = explode;
  check.fields(['explode', 'carry'], carry);
  for (const field of Object.keys(fields)) {
    const at = ['explode', 'fields', field];
    checkName(field, at, note);
    if (carry.includes(field)) note(at, 'is also carried over from the record: rename or drop one');
  }
  const keyAt = ['explode', 'key'];
  const placesOf = (name: string): readonly YamlPath[] => [
    ['explode', 'carry'],
    ['explode', 'fields', name],
    fieldAt(name),
  ];
  const known = [...carry, ...Object.keys(fields)];
  key.forEach((name, index) => {
    if (!known.includes(name)) note([...keyAt, index], noSuch('field', name, known), ...placesOf(name));
  });
  checkKey(key, (name) => fields[name] ?? entity.fields[name], keyAt, note, placesOf);
}
