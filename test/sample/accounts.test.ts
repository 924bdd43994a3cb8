import { readFileSync } from 'node:fs';
import { describe, expect, it, beforeAll } from 'vitest';
import { isJsonObject, type JsonObject, type JsonValue } from '../../src/core/json.ts';
import type { Entity } from '../../src/definitions/definition.ts';
import type { SampleAccount, SampleSize } from '../../src/sample/sample-account.ts';
import { createSampleAccount, sampleDefinitions } from '../../src/sample/sample-service.ts';
import { maxSampleRevision, revisionTime } from '../../src/sample/sample-values.ts';
import { recorded } from '../support/recorded-records.ts';
import { sampleTruth, type TruthRecord } from '../support/sample-truth.ts';
import { definitions as builtIn, object, text } from '../support/service/served-api.ts';
import { isLong } from '../support/trials.ts';

/** Connector types that have a sample account. */
const definitions = new Map([...builtIn].filter(([name]) => sampleDefinitions.includes(name)));

/** Objects whose names belong to the account's owner (merge fields, interests), not to the service. */
const openMaps = new Set(['interests', 'merge_fields', 'properties']);

/** Path -> kinds of value met there. Array elements are `[]`, names of open maps `*`. */
type Kinds = Map<string, Set<string>>;

function addKinds(kinds: Kinds, path: string, value: JsonValue): void {
  const kind = value === null ? 'null' : Array.isArray(value) ? 'array' : typeof value;
  const met = kinds.get(path) ?? new Set();
  kinds.set(path, met.add(kind));
  if (Array.isArray(value)) for (const element of value) addKinds(kinds, `${path}[]`, element);
  if (!isJsonObject(value)) return;
  for (const [name, member] of Object.entries(value)) {
    addKinds(kinds, `${path}.${openMaps.has(path.slice(1)) ? '*' : name}`, member);
  }
}

const open = (definitionName: string, seed = 7, size: SampleSize = 'small'): SampleAccount =>
  createSampleAccount({ definitionName, seed, size });
const truth = (account: SampleAccount, entity: string): readonly TruthRecord[] => [
  ...sampleTruth(account, entity),
];
const records = (account: SampleAccount, entity: string): readonly JsonObject[] =>
  truth(account, entity).map(({ record }) => record);

describe('the email account', () => {
  const account = open('email-marketing');

  it('has lists from empty to several pages, and people who are in more than one', () => {
    const sizes = records(account, 'lists').map((list) => object(list['stats'])['total_contacts']);
    expect(sizes).toEqual([2300, 900, 430, 57, 1, 0]);
    const ids = records(account, 'list_members').map(({ id }) => id);
    expect(new Set(ids).size).toBeLessThan(ids.length);
  });
});

describe('the workspace', () => {
  const account = open('workspace-notes');
  const blocks = truth(account, 'blocks');
  const listed = (id: unknown): readonly JsonObject[] =>
    account.list('blocks', { block_id: String(id) }).slice(0, 1_000);
  const copies = blocks.filter(({ record }) => {
    const synced = record['synced_block'];
    return isJsonObject(synced) && synced['synced_from'] !== null;
  });

  // Proves specification 2.7.4
  it('shows all 37 types of block, and lists six levels deep', () => {
    const entities = [...(definitions.get('workspace-notes')?.entities.values() ?? [])];
    const fields = entities.find(({ name }) => name === 'blocks')?.fields;
    const names = [...(fields?.keys() ?? [])];
    const types = new Set(names.slice(names.indexOf('paragraph'), names.indexOf('meeting_notes') + 1));
    expect(types.size).toBe(37);
    expect(new Set(blocks.map(({ record }) => record['type']))).toEqual(types);
    expect(Math.max(...blocks.map(({ params }) => Number(params['depth'])))).toBe(5);
    expect(blocks.every(({ record }) => isJsonObject(record[text(record['type'])]))).toBe(true);
  });

  it('shows the original’s children under a synced copy, with the same ids and the original as parent', () => {
    expect(copies.length).toBeGreaterThanOrEqual(2);
    for (const { record } of copies) {
      const from = object(object(record['synced_block'])['synced_from'])['block_id'];
      expect(record['has_children']).toBe(true);
      expect(listed(record['id'])).toEqual(listed(from));
      expect(listed(record['id']).length).toBeGreaterThan(0);
      expect(listed(record['id']).every(({ parent }) => object(parent)['block_id'] === from)).toBe(true);
    }
  });

  it('says has_children exactly where a list shows something, except for databases, whose pages lie elsewhere', () => {
    for (const { record } of blocks) {
      if (record['type'] === 'child_database') expect(record['has_children']).toBe(true);
      else if (record['type'] !== 'child_page') {
        expect([record['id'], record['has_children']]).toEqual([
          record['id'],
          listed(record['id']).length > 0,
        ]);
      }
    }
  });

  // Proves specification 4.8.3
  it('shows a page below a page as a block with the page’s id', () => {
    const below = records(account, 'pages').filter(({ parent }) => object(parent)['type'] === 'page_id');
    expect(below.length).toBeGreaterThan(10);
    for (const page of below) {
      const block = listed(object(page['parent'])['page_id']).find(({ id }) => id === page['id']);
      expect(block).toMatchObject({ type: 'child_page', has_children: true });
    }
  });

  // Proves specification 4.8.5
  it('keeps trashed pages out of lists and returns them by id', () => {
    const idsOf = (account: SampleAccount) => records(account, 'pages').map(({ id }) => text(id));
    const later = createSampleAccount({
      definitionName: 'workspace-notes',
      seed: 7,
      size: 'small',
      revision: 1,
    });
    const ids = new Set(idsOf(later));
    expect(new Set(idsOf(account)).size).toBe(120);
    const trashed = idsOf(account).filter((id) => !ids.has(id));
    expect(trashed.length).toBe(1);
    for (const id of trashed) {
      expect(later.get('pages', { page_id: id })).toMatchObject({ archived: true, in_trash: true });
    }
  });

  // Proves specification 4.8.3
  it('gives comments on a page for the page and those on a block for that block only', () => {
    const comments = truth(account, 'comments');
    const kinds = comments.map(({ record, params }) => {
      const parent = object(record['parent']);
      expect(parent[text(parent['type'])]).toBe(params['block_id']);
      return parent['type'];
    });
    expect(new Set(kinds)).toEqual(new Set(['page_id', 'block_id']));
    const onOnePage = (id: unknown): number =>
      comments.filter(({ params }) => params['block_id'] === id).length;
    const counts = comments.map(({ params }) => onOnePage(params['block_id']));
    expect(Math.max(...counts)).toBe(130);
  });

  // Proves specification 4.8.4
  it('takes ids without dashes and in capitals', () => {
    const [page] = records(account, 'pages');
    const id = text(page?.['id']);
    const bare = id.replaceAll('-', '').toUpperCase();
    expect(account.get('pages', { page_id: bare })).toMatchObject({ id });
    expect(listed(bare)).toEqual(listed(id));
  });
});

describe('the accounts of the demo', () => {
  const mailing = open('email-marketing', 1);
  const wiki = open('workspace-notes', 1);
  const readme = readFileSync('README.md', 'utf8');
  const picture = readFileSync('docs/demo.svg', 'utf8');

  it('have as many records as README.md and docs/demo.svg say', () => {
    const shown = (account: SampleAccount, entity: string): string =>
      records(account, entity).length.toLocaleString('en');
    for (const entity of ['lists', 'campaigns']) {
      expect(readme).toMatch(new RegExp(`${entity} +[\\d,]+ +${shown(mailing, entity)} `));
    }
    for (const entity of ['segment_members', 'email_activity', 'unsubscribes']) {
      expect(picture).toContain(`>${shown(mailing, entity)}</text>`);
    }
    for (const entity of ['users', 'pages']) expect(picture).toContain(`>${shown(wiki, entity)}</text>`);
  });
});

describe('sample shapes', () => {
  const accounts = new Map<string, SampleAccount>();
  const kindsByEntity = new Map<string, Kinds>();
  const entities: readonly (readonly [string, string, Entity])[] = [...definitions].flatMap(
    ([definition, { entities }]) =>
      [...entities.values()].map((entity) => [definition, entity.name, entity] as const),
  );

  beforeAll(() => {
    for (const [definition, name, entity] of entities) {
      const account =
        accounts.get(definition) ??
        createSampleAccount({ definitionName: definition, seed: 7, size: 'small' });
      accounts.set(definition, account);
      const kinds: Kinds = new Map();
      for (const { record } of sampleTruth(account, name)) addKinds(kinds, '', record);
      for (const record of gotten(account, entity)) addKinds(kinds, '', record);
      kindsByEntity.set(name, kinds);
    }
  });

  /** What `get` answers for a few records: it has fields of its own. */
  function gotten(account: SampleAccount, entity: Entity): readonly JsonObject[] {
    const key = [...(entity.actions.get('get')?.key ?? [])];
    if (key.length === 0) return [];
    return [...sampleTruth(account, entity.name)].slice(0, 5).flatMap(({ record }) => {
      const got = account.get(
        entity.name,
        Object.fromEntries(key.map(([param, field]) => [param, record[field] ?? null])),
      );
      return got === null ? [] : [got];
    });
  }

  const kindsOf = (entity: string): Kinds => kindsByEntity.get(entity) ?? new Map();

  describe.each(recorded.map((line) => [line.entity, line] as const))('recorded %s', (entity, line) => {
    it('has only fields that generated records have, with the same kinds of value', () => {
      const expected: Kinds = new Map();
      addKinds(expected, '', line.record);
      const kinds = kindsOf(entity);
      const missing = [...expected].flatMap(([path, met]) =>
        [...met].filter((kind) => kinds.get(path)?.has(kind) !== true).map((kind) => `${path}: ${kind}`),
      );
      expect(missing).toEqual([]);
    });

    it('or the specification has every field that generated records have', () => {
      const account = accounts.get(line.definition);
      const declared = entities.find(([, name]) => name === entity)?.[2];
      const known = new Set([
        ...Object.keys(line.record),
        ...(declared?.fields.keys() ?? []),
        ...(declared?.ignored ?? []),
      ]);
      const records =
        account === undefined ? [] : [...sampleTruth(account, entity)].map(({ record }) => record);
      const searchable = declared?.searchable ?? new Map();
      const names = new Set(records.flatMap((record) => Object.keys(record)));
      expect([...names].filter((name) => !known.has(name) && !searchable.has(name))).toEqual([]);
    });
  });

  describe.each(entities)('%s %s', (_definition, name, entity) => {
    // Proves specification 2.5.2, 2.7.6
    it('shows every declared field somewhere, with the declared type', () => {
      const kinds = kindsOf(name);
      const filledIn = new Set([
        ...entity.parents.flatMap(({ inject }) => [...inject.keys()]),
        ...(entity.recursive === null
          ? []
          : [entity.recursive.rootField, entity.recursive.depthField, entity.recursive.positionField]),
      ]);
      // The wire calls them otherwise, and the service fills them in.
      const absent = new Set(entity.filledFrom.keys());
      const kindByType = {
        string: 'string',
        integer: 'number',
        number: 'number',
        boolean: 'boolean',
        object: 'object',
        array: 'array',
      };
      const wrong = [...entity.fields].flatMap(([field, type]) => {
        const met = kinds.get(`.${field}`);
        if (met === undefined) {
          return filledIn.has(field) || absent.has(field) ? [] : [`${field} never comes`];
        }
        const odd = [...met].filter((kind) => type !== 'any' && kind !== 'null' && kind !== kindByType[type]);
        return odd.map((kind) => `${field} comes as ${kind}`);
      });
      expect(wrong).toEqual([]);
    });

    // Proves specification 2.5.2, 2.7.6
    it('has its key in every record, and no key twice', () => {
      const account = accounts.get(_definition);
      const keys = new Set<string>();
      let records = 0;
      for (const { record, params } of account === undefined ? [] : sampleTruth(account, name)) {
        records += 1;
        const inject = entity.parents[0]?.inject ?? new Map<string, string>();
        const key = entity.key.map((field) => params[inject.get(field) ?? ''] ?? record[field]);
        expect(key).not.toContain(undefined);
        expect(record['id']).not.toBeNull();
        keys.add(JSON.stringify(key));
      }
      expect([records > 0, keys.size]).toEqual([true, records]);
    });
  });
});

describe('revisions', () => {
  const names = [...definitions.keys()];
  const entitiesOf = (name: string): readonly string[] => [...(definitions.get(name)?.entities.keys() ?? [])];
  const open = (definitionName: string, revision: number, size: 'tiny' | 'small' = 'small'): SampleAccount =>
    createSampleAccount({ definitionName, seed: 7, size, revision });
  /** Of the mailing account nearly all rows are events of its members. */
  const sizeOf = (name: string): 'tiny' | 'small' =>
    isLong || name !== 'email-marketing' ? 'small' : 'tiny';
  const rows = (account: SampleAccount, entity: string) => [...sampleTruth(account, entity)];
  const records = (account: SampleAccount, entity: string): readonly JsonObject[] =>
    rows(account, entity).map(({ record }) => record);

  describe.each(names)('a revision of %s', (name) => {
    it('is the account without revisions if it is 0', () => {
      const plain = createSampleAccount({ definitionName: name, seed: 7, size: sizeOf(name) });
      for (const entity of entitiesOf(name)) {
        expect(rows(open(name, 0, sizeOf(name)), entity)).toEqual(rows(plain, entity));
      }
    });

    it.each([0, 20])('(%i) is the same whenever it is made, and another for another seed', (revision) => {
      for (const entity of entitiesOf(name)) {
        const first = rows(open(name, revision, 'tiny'), entity);
        expect(first.length).toBeGreaterThan(0);
        expect(rows(open(name, revision, 'tiny'), entity)).toEqual(first);
        const other = createSampleAccount({ definitionName: name, seed: 8, size: 'tiny', revision });
        expect(rows(other, entity)).not.toEqual(first);
      }
    });

    it('lies in the past, behind everything of the revisions before it', () => {
      const times = (revision: number): readonly number[] =>
        entitiesOf(name).flatMap((entity) =>
          [...JSON.stringify(rows(open(name, revision, 'tiny'), entity)).matchAll(isoTimes)].map(([time]) =>
            Date.parse(`${time}Z`),
          ),
        );
      expect(Math.max(...times(0))).toBeLessThan(revisionTime(1));
      for (const revision of [1, 2, 9, 20]) {
        const newest = Math.max(...times(revision));
        expect(newest).toBeGreaterThan(revisionTime(revision));
        // A report has a timeseries over the day after the campaign was sent.
        expect(newest).toBeLessThan(revisionTime(revision + 2));
      }
      expect(revisionTime(maxSampleRevision)).toBeLessThan(Date.UTC(2026, 10, 1));
    });

    it('has every listed record of every entity with get under its key, and no other', () => {
      for (const revision of isLong ? [1, 3, 10] : [3]) {
        const account = open(name, revision, sizeOf(name));
        const before = open(name, revision - 1, sizeOf(name));
        for (const [entity, key] of gets(name)) {
          const keyed = (account_: SampleAccount): ReadonlyMap<string, JsonObject> =>
            new Map(
              records(account_, entity).map((record) => [
                JSON.stringify(Object.fromEntries(key.map(([param, field]) => [param, record[field]]))),
                record,
              ]),
            );
          const listed = keyed(account);
          // Each of them: `npm run test:long`.
          const asked = [...listed].filter((_, index) => isLong || index % 7 === 0);
          for (const [params, record] of asked) {
            expect({ ...account.get(entity, JSON.parse(params) as JsonObject), request_id: null }).toEqual({
              ...record,
              request_id: null,
            });
          }
          for (const params of keyed(before).keys()) {
            if (listed.has(params)) continue;
            const left = getOrNull(account, entity, JSON.parse(params) as JsonObject);
            // A page that moved to the top is still a block of its own.
            if (left?.['type'] === 'child_page') expect(left['parent']).toMatchObject({ type: 'workspace' });
            else if (left !== null) expect(left).toMatchObject({ in_trash: true, archived: true });
          }
        }
      }
    });
  });

  const isoTimes = /\d{4}-\d\d-\d\dT[\d:]{8}/g;

  /** Entities with `get`, and the parameters that it takes from a record. */
  function gets(name: string): readonly (readonly [string, readonly (readonly [string, string])[]])[] {
    return [...(definitions.get(name)?.entities.values() ?? [])].flatMap((entity) => {
      const key = [...(entity.actions.get('get')?.key ?? [])];
      return key.length === 0 ? [] : [[entity.name, key] as const];
    });
  }

  /** Null also where the list that a record was in is gone. */
  function getOrNull(account: SampleAccount, entity: string, params: JsonObject): JsonObject | null {
    try {
      return account.get(entity, params);
    } catch (error) {
      expect(error).toMatchObject({ status: 404 });
      return null;
    }
  }
});
