import { isConnectorName } from '../core/names.ts';
import { checkActions } from './check-actions.ts';
import { checkIncremental } from './check-incremental.ts';
import { checkKey, checkKnown, checkName, checkRemoteName, namePattern, type Note } from './check-names.ts';
import { checkParents, checkRecursive } from './check-parents.ts';
import { checkReading } from './check-reading.ts';
import { checkSearchable } from './check-searchable.ts';
import type { DefinitionFile, EntityFile } from './definition-file.ts';
import { noSuch, suggestName } from './suggest-name.ts';
import type { YamlPath } from './yaml-places.ts';

/** Holds the parts of one definition against each other; every problem goes to `note`. */
export function checkDefinition(file: DefinitionFile, note: Note): void {
  if (!isConnectorName(file.name)) {
    note(['name'], `expected ${namePattern('_ or -')}, got ${JSON.stringify(file.name)}`);
  }
  if (Object.keys(file.entities).length === 0) note(['entities'], 'expected at least one entity');
  for (const [name, entity] of Object.entries(file.entities)) {
    const at = ['entities', name];
    checkName(name, at, note);
    checkFields(entity, at, note);
    checkActions(entity, at, note);
    checkExplode(entity, at, note);
    checkRecursive(entity, at, note);
    checkIncremental(entity, at, note);
    checkReading(entity, at, note);
    checkSearchable(entity, at, note);
  }
  checkTables(file, note);
  checkParents(file, note);
  checkErrorPatterns(file, note);
  checkCredentials(file, note);
}

function checkFields(entity: EntityFile, at: YamlPath, note: Note): void {
  const declared = Object.keys(entity.fields);
  const placesOf = (name: string): readonly YamlPath[] => [[...at, 'fields', name]];
  for (const name of declared) {
    checkName(name, [...at, 'fields', name], note);
  }
  checkKnown(entity.key, declared, 'field', [...at, 'key'], note, placesOf);
  checkKey(entity.key, (part) => entity.fields[part], [...at, 'key'], note, placesOf);
  entity.ignored.forEach((name, index) => {
    if (declared.includes(name)) {
      note(
        [...at, 'ignored', index],
        `${name} is declared as a field: a field is stored or ignored, not both`,
      );
    }
  });
  entity.volatile.forEach((_, index) => checkVolatile(entity, index, at, note));
  for (const [field, source] of Object.entries(entity.filledFrom)) {
    checkFilled(entity, field, source, at, note);
  }
  for (const [where, field] of [
    ['order', entity.order?.field],
    ['only', entity.only?.field],
  ] as const) {
    if (field !== undefined && !declared.includes(field)) {
      note([...at, where, 'field'], noSuch('field', field, declared), ...placesOf(field));
    }
  }
}

function checkVolatile(entity: EntityFile, index: number, entityAt: YamlPath, note: Note): void {
  const at = [...entityAt, 'volatile', index];
  const path = entity.volatile[index] ?? '';
  const [first = '', ...rest] = path.split('.');
  if (first === '' || rest.includes('')) {
    note(at, `expected names joined by dots, got ${JSON.stringify(path)}`);
    return;
  }
  if (first === '*' && rest.length === 0) {
    note(at, 'expected at least one field to stay in the content hash, got all of them');
  }
  if (first !== '*' && !Object.hasOwn(entity.fields, first)) {
    note(at, noSuch('field', first, Object.keys(entity.fields)), [...entityAt, 'fields', first]);
  }
  if (rest.length === 0 && entity.key.includes(first)) {
    note(at, `${first} is part of the key: it cannot be left out of the content hash`);
  }
}

/** What is filled in after a record is hashed can be neither its key nor a part that is hashed apart. */
function checkFilled(
  entity: EntityFile,
  field: string,
  source: string,
  entityAt: YamlPath,
  note: Note,
): void {
  const at = [...entityAt, 'filledFrom', field];
  const declared = Object.keys(entity.fields);
  if (!declared.includes(field)) {
    note(at, noSuch('field', field, declared), [...entityAt, 'fields', field]);
  }
  if (entity.key.includes(field)) note(at, `${field} is part of the key: it cannot be a copy`);
  if (field === entity.explode?.field) note(at, `${field} is exploded: it cannot be a copy`);
  if (entity.volatile.some((path) => path.split('.')[0] === field)) {
    note(at, `${field} is volatile: a copy is left out of the content hash anyway`, [
      ...entityAt,
      'volatile',
    ]);
  }
  if (source === field) note(at, `expected another field than ${field} itself`);
  if (entity.ignored.includes(source)) {
    note(at, `${source} is ignored: a change of it would not be seen`, [...entityAt, 'ignored']);
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

/** An array whose elements become rows of a table of their own. */
function checkExplode(entity: EntityFile, at: YamlPath, note: Note): void {
  const { explode } = entity;
  if (explode === null) return;
  const here = [...at, 'explode'];
  const declared = Object.keys(entity.fields);
  const fieldOf = (name: string): YamlPath => [...at, 'fields', name];
  checkName(explode.into, [...here, 'into'], note);
  const type = entity.fields[explode.field];
  if (type !== 'array') {
    const got =
      type === undefined
        ? `there is no field ${JSON.stringify(explode.field)}${suggestName(explode.field, declared)}`
        : `${explode.field} is of type ${type}`;
    note([...here, 'field'], `expected an array field; ${got}`, fieldOf(explode.field));
  }
  checkKnown(explode.carry, declared, 'field', [...here, 'carry'], note, (name) => [fieldOf(name)]);
  for (const field of Object.keys(explode.fields)) {
    checkName(field, [...here, 'fields', field], note);
    if (explode.carry.includes(field)) {
      note([...here, 'fields', field], 'is also carried over from the record: rename or drop one');
    }
  }
  const columns = [...explode.carry, ...Object.keys(explode.fields)];
  const placesOf = (name: string): readonly YamlPath[] => [
    [...here, 'carry'],
    [...here, 'fields', name],
    fieldOf(name),
  ];
  const typeOf = (name: string): string | undefined => explode.fields[name] ?? entity.fields[name];
  checkKnown(explode.key, columns, 'field', [...here, 'key'], note, placesOf);
  checkKey(explode.key, typeOf, [...here, 'key'], note, placesOf);
}
