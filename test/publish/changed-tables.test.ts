import { expect, describe } from 'vitest';
import { openPostgresTarget } from '../../src/publish/postgres/postgres-target.ts';
import { untilEnd } from '../contracts/target-contract.ts';
import { it } from '../support/it.ts';
import { openPublishWorld } from '../support/publish/publish-world.ts';
import { people, useMart } from '../support/publish/mart.ts';
import {
  addColumns,
  addEntity,
  emptyModel,
  publishModel,
  remove,
  store,
} from '../support/publish/stored-model.ts';

const { placeOf, schemaOf, ask } = useMart();

describe('a target in PostgreSQL that another program has changed', () => {
  it('reports that what was published was changed, until a new generation replaces it', async ({
    folder,
  }) => {
    const schema = schemaOf(folder);
    await using target = openPostgresTarget(placeOf(folder), untilEnd);
    const model = emptyModel();
    const entity = people(model);
    await publishModel(target, model);
    await ask(`DELETE FROM ${schema}.news__people WHERE id = 'p1'`);
    await ask(`UPDATE ${schema}._publications SET manifest = '{}'`);
    expect((await target.check(untilEnd)).problems).toEqual([
      'the manifest of publication 1 was changed: its SHA-256 is another one',
      'table news__people should have 3 rows and 0 deleted ones, and has 2 and 0',
    ]);
    await expect(target.newest()).rejects.toMatchObject({ code: 'TARGET_INCOMPATIBLE' });
    await ask(`DROP SCHEMA ${schema} CASCADE`);
    await publishModel(target, model);
    await ask(`ALTER TABLE ${schema}.news__people DROP COLUMN name CASCADE`);
    store(model, entity, { id: 'p9' });
    await expect(publishModel(target, model)).rejects.toMatchObject({
      code: 'TARGET_INCOMPATIBLE',
      message: expect.stringMatching(/has lost its column name.*--new-generation/),
    });
    people(model, 1);
    await publishModel(target, model);
    await ask(`DROP TABLE ${schema}.news__people CASCADE`);
    expect((await target.check(untilEnd)).problems).toEqual([
      'table news__people is gone',
      'view news__people_current is gone',
    ]);
    people(model, 2);
    await publishModel(target, model);
    expect(await ask(`SELECT id FROM ${schema}.news__people`)).toHaveLength(2);
    expect((await target.check(untilEnd)).problems).toEqual([]);
  });

  // Proves promise 20.5
  it('finds changes before a publication meets them', async ({ folder }) => {
    const schema = schemaOf(folder);
    await using target = openPostgresTarget(placeOf(folder), untilEnd);
    const model = emptyModel();
    people(model);
    await publishModel(target, model);
    await ask(`DROP VIEW ${schema}.news__people_current`);
    await ask(`ALTER TABLE ${schema}.news__people ALTER COLUMN name TYPE varchar(99)`);
    expect((await target.check(untilEnd)).problems).toEqual([
      'table news__people has character varying in column name, which should be text',
      'view news__people_current is gone',
    ]);
    await ask(`ALTER TABLE ${schema}.news__people DROP COLUMN name, DROP COLUMN _deleted`);
    expect((await target.check(untilEnd)).problems).toContain('table news__people has lost its column name');
    await ask(`DELETE FROM ${schema}._published_tables`);
    expect((await target.check(untilEnd)).problems).toEqual([
      '_published_tables lacks news/people, which was published',
    ]);
    people(model, 1);
    await ask(`DROP TABLE ${schema}.news__people`);
    await publishModel(target, model);
    await ask(`DELETE FROM ${schema}._publications`);
    expect((await target.check(untilEnd)).problems).toEqual([
      '_publications is empty, and there are tables of publications',
    ]);
  });

  // Proves promise 20.1
  it('says what it has lost of what was published, and refuses a publication that continues it', async ({
    folder,
  }) => {
    const schema = schemaOf(folder);
    await using world = openPublishWorld();
    await using target = openPostgresTarget(placeOf(folder), untilEnd);
    const again = async (): Promise<void> => {
      await world.publish({ isNewGenerationAsked: true }, target);
    };
    await world.run({
      upserts: [
        ['1', 'Ada'],
        ['2', 'Bob'],
      ],
    });
    await world.publish({}, target);
    // Nothing has changed: no row comes into any table.
    for (const [damage, says] of [
      [`DELETE FROM ${schema}.news__members WHERE id = '2'`, 'news__members should have 2 rows, and has 1'],
      [
        `ALTER TABLE ${schema}.news__members DROP COLUMN name CASCADE`,
        'news__members has lost its column name',
      ],
      [`DROP TABLE ${schema}.news__members CASCADE`, 'news__members is gone'],
    ] as const) {
      await ask(damage);
      await expect(world.publish({}, target)).rejects.toMatchObject({
        code: 'TARGET_INCOMPATIBLE',
        message: expect.stringMatching(`${says}.* connector-sync publish lake --new-generation$`),
      });
      await again();
      expect((await target.check(untilEnd)).problems).toEqual([]);
      expect(await world.publish({}, target)).toMatchObject({ kind: 'unchanged' });
    }
  });

  it('is not taken for one that was never published where its list of tables has lost one', async ({
    folder,
  }) => {
    const schema = schemaOf(folder);
    await using target = openPostgresTarget(placeOf(folder), untilEnd);
    const model = emptyModel();
    const entity = people(model);
    await publishModel(target, model);
    await ask(`DELETE FROM ${schema}._published_tables`);
    store(model, entity, { id: 'p9' });
    await expect(publishModel(target, model)).rejects.toMatchObject({
      code: 'TARGET_INCOMPATIBLE',
      message: expect.stringContaining('Rename that table, and publish with --new-generation.'),
    });
    await ask(`ALTER TABLE ${schema}.news__people RENAME TO people_before`);
    await expect(publishModel(target, model)).rejects.toMatchObject({
      code: 'TARGET_INCOMPATIBLE',
      message: expect.stringContaining(
        '_published_tables does not list news__people, which was published. Publish with --new-generation.',
      ),
    });
    people(model, 2);
    await ask(`DROP TABLE ${schema}.people_before CASCADE`);
    await publishModel(target, model);
    expect((await target.check(untilEnd)).problems).toEqual([]);
  });

  it('gets a view back with a new generation, unless another one was created in its place', async ({
    folder,
  }) => {
    const schema = schemaOf(folder);
    const view = `${schema}.news__people_current`;
    await using target = openPostgresTarget(placeOf(folder), untilEnd);
    const model = emptyModel();
    people(model);
    await publishModel(target, model);
    await ask(`DROP VIEW ${view}`);
    const entity = people(model, 2);
    await publishModel(target, model);
    expect(await ask(`SELECT * FROM ${view}`)).toHaveLength(2);
    expect((await target.check(untilEnd)).problems).toEqual([]);
    await ask(
      `DROP VIEW ${view}; CREATE VIEW ${view} AS SELECT * FROM ${schema}.news__people WHERE NOT _deleted`,
    );
    addColumns(entity, { name: 'email', type: 'string' });
    store(model, entity, { id: 'p1', email: 'e' });
    await publishModel(target, model);
    store(model, addEntity(model, 'people', entity.columns), { id: 'p1', email: 'f' });
    await publishModel(target, model);
    expect(await ask(`SELECT * FROM ${view}`)).toMatchObject([{ id: 'p1', _deleted: 'f' }]);
    expect(await ask(`SELECT view_name FROM ${schema}._published_tables`)).toEqual([{ view_name: null }]);
    expect((await target.check(untilEnd)).problems).toEqual([]);
  });

  it('keeps no row of an earlier generation because of a trigger: nothing is published', async ({
    folder,
  }) => {
    const schema = schemaOf(folder);
    await using target = openPostgresTarget(placeOf(folder), untilEnd);
    const model = emptyModel();
    people(model);
    await publishModel(target, model);
    await ask(
      `CREATE FUNCTION ${schema}.no_row() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
       CREATE TRIGGER kept BEFORE DELETE ON ${schema}.news__people FOR EACH ROW EXECUTE FUNCTION ${schema}.no_row()`,
    );
    people(model, 1);
    await expect(publishModel(target, model)).rejects.toMatchObject({
      code: 'TARGET_INCOMPATIBLE',
      message: expect.stringMatching(/news__people kept rows that were deleted\. Remove the trigger/),
    });
    await ask(`DROP TRIGGER kept ON ${schema}.news__people`);
    await publishModel(target, model);
    expect(await ask(`SELECT id FROM ${schema}.news__people`)).toEqual([{ id: 'p1' }]);
  });

  it('lets no index of others make one row out of two', async ({ folder }) => {
    const schema = schemaOf(folder);
    await using target = openPostgresTarget(placeOf(folder), untilEnd);
    const model = emptyModel();
    const entity = people(model, 1);
    await publishModel(target, model);
    await ask(
      `CREATE COLLATION ${schema}.ci (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
       CREATE UNIQUE INDEX ON ${schema}.news__people (id COLLATE ${schema}.ci)`,
    );
    store(model, entity, { id: 'P1', name: 'Bob' });
    await expect(publishModel(target, model)).rejects.toMatchObject({
      message: expect.stringMatching(/23505.*If a constraint or an index was added.* drop it/),
    });
    expect(await ask(`SELECT id, name FROM ${schema}.news__people`)).toEqual([{ id: 'p1', name: 'Ada' }]);
  });

  // Proves promise 20.5
  it.for(['mark', 'remove'] as const)(
    'publishes nothing where a trigger keeps rows out of its table (%s)',
    async (deletes, { folder }) => {
      const table = `${schemaOf(folder)}.news__people`;
      await using target = openPostgresTarget(placeOf(folder, deletes), untilEnd);
      const model = emptyModel();
      const entity = people(model);
      await publishModel(target, model);
      await ask(
        `CREATE FUNCTION ${schemaOf(folder)}.no_row() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'`,
      );
      const before = await ask(`SELECT * FROM ${table} ORDER BY id`);
      const refused = async (): Promise<void> => {
        await expect(publishModel(target, model)).rejects.toMatchObject({
          code: 'TARGET_INCOMPATIBLE',
          message: expect.stringMatching(/its table news__people took 0 of 1 changed rows.*trigger/),
        });
        expect(await ask(`SELECT * FROM ${table} ORDER BY id`)).toEqual(before);
      };
      await ask(
        `CREATE TRIGGER kept_out BEFORE INSERT OR DELETE ON ${table} FOR EACH ROW EXECUTE FUNCTION ${schemaOf(folder)}.no_row()`,
      );
      remove(model, entity, 'p1');
      await refused();
      await ask(`DROP TRIGGER kept_out ON ${table}`);
      await publishModel(target, model);
      expect((await target.check(untilEnd)).problems).toEqual([]);
    },
  );
});
