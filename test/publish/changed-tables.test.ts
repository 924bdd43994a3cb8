import { expect, describe } from 'vitest';
import { openPostgresTarget } from '../../src/publish/postgres/postgres-target.ts';
import { untilEnd } from '../contracts/target-contract.ts';
import { it } from '../support/it.ts';
import { people, useMart } from '../support/publish/mart.ts';
import { emptyModel, publishModel, remove, store } from '../support/publish/stored-model.ts';

const { placeOf, schemaOf, ask } = useMart();

describe('a target in PostgreSQL that somebody else has changed', () => {
  it('says when somebody has changed what was published, until a new generation replaces it', async ({
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

  it('finds what somebody has changed before a publication meets it', async ({ folder }) => {
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
