import { describe, expect } from 'vitest';
import { openPostgresTarget } from '../../src/publish/postgres/postgres-target.ts';
import type { Target } from '../../src/publish/target.ts';
import { untilEnd } from '../contracts/target-contract.ts';
import { it } from '../support/it.ts';
import { people, useMart } from '../support/publish/mart.ts';
import {
  addColumns,
  addEntity,
  emptyModel,
  publishModel,
  remove,
  store,
  type StoredEntity,
  type StoredModel,
} from '../support/publish/stored-model.ts';

const { placeOf, schemaOf, ask } = useMart();

/** What another program does to a published table, and what a check reports of it. */
const damages = [
  {
    what: 'its primary key',
    sql: 'DROP CONSTRAINT news__people_pkey',
    says: 'has lost the unique index on its key',
  },
  {
    what: 'its key for one of some rows',
    sql: 'DROP CONSTRAINT news__people_pkey; CREATE UNIQUE INDEX ON news__people (id) WHERE NOT _deleted',
    says: 'has lost the unique index on its key',
  },
  {
    what: 'its key for one with a column more',
    sql: 'DROP CONSTRAINT news__people_pkey, ADD UNIQUE (id, _seq)',
    says: 'has lost the unique index on its key',
  },
  {
    what: 'its key for one that is checked later',
    sql: 'DROP CONSTRAINT news__people_pkey, ADD UNIQUE (id) DEFERRABLE',
    says: 'has lost the unique index on its key',
  },
  { what: 'a column of its own', sql: 'DROP COLUMN _extra', says: 'has lost its column _extra' },
  {
    what: 'the mark of deleted rows',
    sql: 'DROP COLUMN _deleted CASCADE, ADD COLUMN _deleted text',
    says: 'has text in column _deleted, which should be boolean',
  },
  {
    what: 'a column for a computed one',
    sql: "DROP COLUMN name CASCADE, ADD COLUMN name text GENERATED ALWAYS AS ('x') STORED",
    says: 'has generated text in column name, which should be text',
  },
] as const;

async function alter(schema: string, sql: string): Promise<void> {
  await ask(`SET search_path = ${schema}; ALTER TABLE news__people ${sql}; RESET search_path`);
}

/** Refused until a new generation comes, which makes everything good. */
async function expectHealed(
  target: Target,
  model: StoredModel,
  { says, again }: { readonly says: string; readonly again: () => void },
): Promise<void> {
  await expect(publishModel(target, model)).rejects.toMatchObject({
    code: 'TARGET_INCOMPATIBLE',
    message: expect.stringContaining(
      `its table news__people ${says}. Undo that, or publish with --new-generation.`,
    ),
  });
  again();
  await publishModel(target, model);
  expect((await target.check(untilEnd)).problems).toEqual([]);
}

function scored(model: StoredModel, type: 'string' | 'integer' | null): StoredEntity {
  const score = type === null ? [] : [{ name: 'score', type }];
  return addEntity(model, 'people', [
    { name: 'id', type: 'string' },
    ...score,
    { name: 'name', type: 'string' },
  ]);
}

describe('a table in PostgreSQL that is not as it was made', () => {
  it.for(damages)(
    'is recreated by a new generation after another program dropped $what',
    async (damage, { folder }) => {
      const schema = schemaOf(folder);
      await using target = openPostgresTarget(placeOf(folder), untilEnd);
      const model = emptyModel();
      const entity = people(model);
      await publishModel(target, model);
      await alter(schema, damage.sql);
      expect((await target.check(untilEnd)).problems).toContain(`table news__people ${damage.says}`);
      store(model, entity, { id: 'p1', name: 'Eve' });
      const again = (): void => void people(model, 2);
      await expectHealed(target, model, { says: damage.says, again });
      expect(await ask(`SELECT * FROM ${schema}.news__people_current ORDER BY id`)).toEqual([
        { id: 'p1', name: 'Ada' },
        { id: 'p2', name: 'Ada' },
      ]);
      remove(model, people(model, 2), 'p2');
      await publishModel(target, model);
      expect((await target.check(untilEnd)).problems).toEqual([]);
    },
  );

  it('takes another unique index on its key for the one that it had', async ({ folder }) => {
    await using target = openPostgresTarget(placeOf(folder), untilEnd);
    const model = emptyModel();
    const entity = people(model);
    await publishModel(target, model);
    await alter(schemaOf(folder), 'DROP CONSTRAINT news__people_pkey, ADD UNIQUE (id) INCLUDE (_seq)');
    store(model, entity, { id: 'p1', name: 'Eve' });
    await publishModel(target, model);
    expect((await target.check(untilEnd)).problems).toEqual([]);
  });

  it.for(['text', 'bigint'] as const)(
    'leaves a column of others (%s) alone until the source has one of that name, which a new generation puts in its place',
    async (type, { folder }) => {
      const schema = schemaOf(folder);
      await using target = openPostgresTarget(placeOf(folder), untilEnd);
      const model = emptyModel();
      const entity = people(model);
      await publishModel(target, model);
      await alter(schema, `ADD COLUMN email ${type} DEFAULT 7`);
      store(model, entity, { id: 'p1', name: 'Eve' });
      await publishModel(target, model);
      expect(await ask(`SELECT email FROM ${schema}.news__people WHERE id = 'p1'`)).toEqual([{ email: '7' }]);
      expect((await target.check(untilEnd)).problems).toEqual([]);
      addColumns(entity, { name: 'email', type: 'string' });
      store(model, entity, { id: 'p1', email: 'e' });
      const says =
        'has a column email that was added by hand, and needs that name for a column of the source';
      const again = (): void => {
        const next = addEntity(model, 'people', entity.columns);
        store(model, next, { id: 'p1', email: 'e' });
        store(model, next, { id: 'p2' });
      };
      await expectHealed(target, model, { says, again });
      expect(await ask(`SELECT id, email FROM ${schema}.news__people_current ORDER BY id`)).toEqual([
        { id: 'p1', email: 'e' },
        { id: 'p2', email: null },
      ]);
    },
  );

  it('says what to do where a view stands in its place, or a constraint keeps rows out', async ({
    folder,
  }) => {
    const schema = schemaOf(folder);
    await using target = openPostgresTarget(placeOf(folder), untilEnd);
    const model = emptyModel();
    const entity = people(model);
    await publishModel(target, model);
    await alter(
      schema,
      "ADD COLUMN mine text NOT NULL DEFAULT ''; ALTER TABLE news__people ALTER COLUMN mine DROP DEFAULT",
    );
    store(model, entity, { id: 'p4' });
    await expect(publishModel(target, model)).rejects.toMatchObject({
      code: 'TARGET_FAILED',
      message: expect.stringMatching(/column "mine".*If a constraint.* was added .* drop it/),
    });
    await alter(schema, `RENAME TO away; CREATE VIEW ${schema}.news__people AS SELECT * FROM ${schema}.away`);
    people(model, 2);
    await expect(publishModel(target, model)).rejects.toMatchObject({
      code: 'TARGET_FAILED',
      message: expect.stringMatching(
        /"news__people" is not a table.*Rename or drop what stands in its place/,
      ),
    });
    await ask(`DROP VIEW ${schema}.news__people`);
    await publishModel(target, model);
    expect((await target.check(untilEnd)).problems).toEqual([]);
  });
});

describe('a column that left with a generation, in PostgreSQL', () => {
  it.for(['changes', 'a generation'] as const)(
    'comes back with another type in %s',
    async (way, { folder }) => {
      const schema = schemaOf(folder);
      await using target = openPostgresTarget(placeOf(folder), untilEnd);
      const model = emptyModel();
      store(model, scored(model, 'string'), { id: 'p1', score: 'x', name: 'Ada' });
      await publishModel(target, model);
      await ask(
        `CREATE ROLE scorer_${schema}; GRANT SELECT ON ${schema}.news__people_current TO scorer_${schema}`,
      );
      await ask(`CREATE VIEW ${schema}.mine AS SELECT name FROM ${schema}.news__people WHERE NOT _deleted`);
      let entity = scored(model, null);
      store(model, entity, { id: 'p1', name: 'Ada' });
      store(model, entity, { id: 'p2', name: 'Eve' });
      await publishModel(target, model);
      expect(await ask(`SELECT id, score FROM ${schema}.news__people_current ORDER BY id`)).toEqual([
        { id: 'p1', score: null },
        { id: 'p2', score: null },
      ]);
      if (way === 'changes') addColumns(entity, { name: 'score', type: 'integer' });
      else {
        entity = scored(model, 'integer');
        store(model, entity, { id: 'p2', name: 'Eve' });
      }
      store(model, entity, { id: 'p1', score: 5n, name: 'Ada' });
      await publishModel(target, model);
      expect(
        await ask(`SELECT id, name, score + 1 AS next FROM ${schema}.news__people_current ORDER BY id`),
      ).toEqual([
        { id: 'p1', name: 'Ada', next: '6' },
        { id: 'p2', name: 'Eve', next: null },
      ]);
      expect(await ask(`SELECT * FROM ${schema}.mine`)).toHaveLength(2);
      const rights = `SELECT has_table_privilege('scorer_${schema}', '${schema}.news__people_current', 'SELECT') AS may`;
      expect(await ask(rights)).toEqual([{ may: 't' }]);
      expect((await target.check(untilEnd)).problems).toEqual([]);
    },
  );

  it('comes back with another type once the views that show it, which the error names, are dropped', async ({
    folder,
  }) => {
    const schema = schemaOf(folder);
    await using target = openPostgresTarget(placeOf(folder), untilEnd);
    const model = emptyModel();
    store(model, scored(model, 'string'), { id: 'p1', score: 'x' });
    await publishModel(target, model);
    await ask(`CREATE VIEW ${schema}.mine AS SELECT score FROM ${schema}.news__people`);
    const entity = scored(model, null);
    store(model, entity, { id: 'p1' });
    await publishModel(target, model);
    addColumns(entity, { name: 'score', type: 'integer' });
    store(model, entity, { id: 'p1', score: 5n });
    await expect(publishModel(target, model)).rejects.toMatchObject({
      code: 'TARGET_INCOMPATIBLE',
      message: expect.stringMatching(
        /views or other objects.*view [^ ]*mine depends on.*Drop them, publish again/,
      ),
    });
    await ask(`DROP VIEW ${schema}.mine`);
    await publishModel(target, model);
    expect(await ask(`SELECT score FROM ${schema}.news__people_current`)).toEqual([{ score: '5' }]);
  });
});

describe('rows of a table in PostgreSQL that are marked, and later removed', () => {
  it('are counted as they are', async ({ folder }) => {
    const model = emptyModel();
    const entity = people(model, 6);
    const expectIds = async (deletes: 'mark' | 'remove', ids: readonly string[]): Promise<void> => {
      await using target = openPostgresTarget(placeOf(folder, deletes), untilEnd);
      await publishModel(target, model);
      expect((await target.check(untilEnd)).problems).toEqual([]);
      const rows = await ask(`SELECT id, _deleted FROM ${schemaOf(folder)}.news__people ORDER BY id`);
      expect(rows.map((row) => `${row['id']}${row['_deleted'] === 't' ? ' deleted' : ''}`)).toEqual(ids);
    };
    for (const id of ['p1', 'p2', 'p3', 'p4']) remove(model, entity, id);
    await expectIds('mark', ['p1 deleted', 'p2 deleted', 'p3 deleted', 'p4 deleted', 'p5', 'p6']);
    // Back, deleted once more, come and gone, and known to be there until now.
    store(model, entity, { id: 'p1' });
    remove(model, entity, 'p2');
    store(model, entity, { id: 'p7' });
    remove(model, entity, 'p7');
    remove(model, entity, 'p5');
    await expectIds('remove', ['p1', 'p3 deleted', 'p4 deleted', 'p6']);
    for (const id of ['p1', 'p3']) remove(model, entity, id);
    store(model, entity, { id: 'p4' });
    await expectIds('remove', ['p4', 'p6']);
    remove(model, entity, 'p4');
    store(model, entity, { id: 'p1' });
    await expectIds('mark', ['p1', 'p4 deleted', 'p6']);
    store(model, entity, { id: 'p4' });
    await expectIds('mark', ['p1', 'p4', 'p6']);
  });
});
