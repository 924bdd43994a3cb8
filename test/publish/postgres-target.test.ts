import { describe, expect, onTestFinished } from 'vitest';
import { openPostgresTarget, type PostgresPlace } from '../../src/publish/postgres/postgres-target.ts';
import type { Target } from '../../src/publish/target.ts';
import { targetContract, untilEnd, type TargetKind } from '../contracts/target-contract.ts';
import { it } from '../support/it.ts';
import { isCommit, startPostgresProxy, type Passing } from '../support/postgres-proxy.ts';
import { people, useMart } from '../support/publish/mart.ts';
import { openPublishWorld } from '../support/publish/publish-world.ts';
import { postgresTableRows } from '../support/publish/read-tables.ts';
import {
  addColumns,
  addEntity,
  emptyModel,
  publishModel,
  remove,
  store,
  tableOf,
  type StoredEntity,
  type StoredModel,
} from '../support/publish/stored-model.ts';
import { isLong } from '../support/trials.ts';

const { server, client, placeOf, schemaOf, ask } = useMart();

function kindOf(deletes: PostgresPlace['deletes']): TargetKind {
  return {
    open: async (folder) => openPostgresTarget(placeOf(folder, deletes), untilEnd),
    rows: async (folder, entity) =>
      await postgresTableRows(client(), schemaOf(folder), {
        connector: entity.connector,
        table: tableOf(entity),
      }),
  };
}

describe('a target in PostgreSQL that marks deletes', () => {
  targetContract(kindOf('mark'));
});

describe.runIf(isLong)('a target in PostgreSQL that removes deleted rows', () => {
  targetContract(kindOf('remove'));
});

describe('a target in PostgreSQL', () => {
  it('marks deleted rows, which keep their last values, and leaves them out of the view', async ({
    folder,
  }) => {
    const schema = schemaOf(folder);
    await using target = openPostgresTarget(placeOf(folder), untilEnd);
    const model = emptyModel();
    const entity = people(model);
    await publishModel(target, model);
    remove(model, entity, 'p2');
    await publishModel(target, model);
    const marked = await ask(
      `SELECT id, name, _seq FROM ${schema}.news__people WHERE _deleted AND _deleted_at = _changed_at`,
    );
    expect(marked).toEqual([{ id: 'p2', name: 'Ada', _seq: '4' }]);
    expect(await ask(`SELECT * FROM ${schema}.news__people_current ORDER BY id`)).toEqual([
      { id: 'p1', name: 'Ada' },
      { id: 'p3', name: 'Ada' },
    ]);
    addColumns(entity, { name: 'email', type: 'string' });
    store(model, entity, { id: 'p1', email: 'e' });
    await publishModel(target, model);
    expect((await ask(`SELECT * FROM ${schema}.news__people_current ORDER BY id`))[0]).toEqual({
      id: 'p1',
      name: null,
      email: 'e',
    });
  });

  it('removes deleted rows where it is asked to, those of the first publication too', async ({ folder }) => {
    await using target = openPostgresTarget(placeOf(folder, 'remove'), untilEnd);
    const model = emptyModel();
    const entity = people(model);
    remove(model, entity, 'p1');
    await publishModel(target, model);
    remove(model, entity, 'p2');
    await publishModel(target, model);
    expect(await ask(`SELECT id, _deleted FROM ${schemaOf(folder)}.news__people`)).toEqual([
      { id: 'p3', _deleted: 'f' },
    ]);
    expect((await target.check(untilEnd)).problems).toEqual([]);
  });

  it('keeps views and rights of others through a new generation, and rights where the table is recreated', async ({
    folder,
  }) => {
    const schema = schemaOf(folder);
    await using target = openPostgresTarget(placeOf(folder), untilEnd);
    const model = emptyModel();
    people(model);
    await publishModel(target, model);
    await ask(`CREATE ROLE analyst_${schema}`);
    await ask(`GRANT SELECT ON ${schema}.news__people, ${schema}.news__people_current TO analyst_${schema}`);
    await ask(`CREATE VIEW ${schema}.mine AS SELECT name FROM ${schema}.news__people WHERE NOT _deleted`);
    people(model, 2);
    await publishModel(target, model);
    expect(await ask(`SELECT * FROM ${schema}.mine`)).toHaveLength(2);
    const other = addEntity(model, 'people', [{ name: 'id', type: 'integer' }]);
    store(model, other, { id: 1 });
    await expect(publishModel(target, model)).rejects.toMatchObject({
      code: 'TARGET_INCOMPATIBLE',
      message: expect.stringMatching(/views or other objects.*Drop them, publish again/),
    });
    // Nothing of it is there: readers still see what was.
    expect(await ask(`SELECT * FROM ${schema}.mine`)).toHaveLength(2);
    await ask(`DROP VIEW ${schema}.mine`);
    await publishModel(target, model);
    const rights = await ask(
      `SELECT table_name FROM information_schema.role_table_grants WHERE grantee = 'analyst_${schema}' ORDER BY 1`,
    );
    expect(rights).toEqual([{ table_name: 'news__people' }, { table_name: 'news__people_current' }]);
  });

  it('keeps a row that is newer than a change of the same key', async ({ folder }) => {
    await using target = openPostgresTarget(placeOf(folder), untilEnd);
    const model = emptyModel();
    const entity = people(model);
    await publishModel(target, model);
    const table = `${schemaOf(folder)}.news__people`;
    await ask(`UPDATE ${table} SET _seq = 100, name = 'newer' WHERE id IN ('p1', 'p2')`);
    store(model, entity, { id: 'p1', name: 'older' });
    remove(model, entity, 'p2');
    store(model, entity, { id: 'p3', name: 'changed' });
    await publishModel(target, model);
    expect(await ask(`SELECT id, name, _deleted FROM ${table} ORDER BY id`)).toEqual([
      { id: 'p1', name: 'newer', _deleted: 'f' },
      { id: 'p2', name: 'newer', _deleted: 'f' },
      { id: 'p3', name: 'changed', _deleted: 'f' },
    ]);
  });

  it('holds texts that it cannot take as docs/publications.md says', async ({ folder }) => {
    await using target = openPostgresTarget(placeOf(folder), untilEnd);
    const model = emptyModel();
    const entity = addEntity(model, 'people', [
      { name: 'id', type: 'string' },
      { name: 'name', type: 'string' },
      { name: 'more', type: 'object' },
    ]);
    store(model, entity, { id: '1', name: 'a\0b\uE000c\ud83d', more: '{"a":"\\u0000\\ud83d"}' });
    await publishModel(target, model);
    const table = `${schemaOf(folder)}.news__people`;
    const undone = `replace(replace(name, U&'\\E000' || '0', ''), U&'\\E000' || '1', U&'\\E000')`;
    expect(await ask(`SELECT name, more, ${undone} AS undone FROM ${table}`)).toEqual([
      { name: 'a\uE0000b\uE0001c\uFFFD', more: '{"a":"\\u0000\\ud83d"}', undone: 'ab\uE000c\uFFFD' },
    ]);
    await expect(ask(`SELECT more ->> 'a' FROM ${table}`)).rejects.toThrow();
  });

  // Proves promise 20.5
  it('touches no table of another program, and no schema of a sink', async ({ folder }) => {
    const schema = schemaOf(folder);
    await using target = openPostgresTarget(placeOf(folder), untilEnd);
    const model = emptyModel();
    people(model);
    await ask(`CREATE SCHEMA ${schema}`);
    await ask(`CREATE TABLE ${schema}.news__people (mine text)`);
    await expect(publishModel(target, model)).rejects.toMatchObject({
      code: 'TARGET_INCOMPATIBLE',
      message: expect.stringContaining('news__people that _published_tables does not list'),
    });
    await ask(`DROP SCHEMA ${schema} CASCADE`);
    await ask(`CREATE SCHEMA ${schema}; CREATE TABLE ${schema}._publications (mine text)`);
    await expect(target.newest()).rejects.toMatchObject({ code: 'TARGET_INCOMPATIBLE' });
    await ask(`DROP TABLE ${schema}._publications; CREATE TABLE ${schema}._sync_meta (sink_id text)`);
    await expect(target.begin(1)).rejects.toMatchObject({
      code: 'TARGET_INCOMPATIBLE',
      message: expect.stringContaining('a sink of connector-sync'),
    });
  });

  it('says what to do where one of its own tables was dropped', async ({ folder }) => {
    const schema = schemaOf(folder);
    await using target = openPostgresTarget(placeOf(folder), untilEnd);
    const model = emptyModel();
    people(model, 1);
    await publishModel(target, model);
    for (const own of ['_published_tables', '_publications']) {
      await ask(`ALTER TABLE ${schema}.${own} RENAME TO away`);
      const problem = {
        code: 'TARGET_INCOMPATIBLE',
        message: expect.stringContaining(
          `the table ${own} of its schema is gone. Restore that table from a backup, or name another schema.`,
        ),
      };
      await expect(target.newest()).rejects.toMatchObject(problem);
      await expect(target.check(untilEnd)).rejects.toMatchObject(problem);
      await ask(`ALTER TABLE ${schema}.away RENAME TO ${own}`);
    }
    people(model, 2);
    await publishModel(target, model);
    expect((await target.check(untilEnd)).problems).toEqual([]);
  });

  // Proves promise 20.5
  it('never shows a reader half a publication, also where a generation replaces another', async ({
    folder,
  }) => {
    const schema = schemaOf(folder);
    await using target = openPostgresTarget(placeOf(folder), untilEnd);
    const model = emptyModel();
    const rounds = isLong ? 200 : 12;
    const publish = async (round: number): Promise<void> => {
      const entity = round % 3 === 0 ? people(model, 0) : (model.entities.get('people') ?? people(model, 0));
      for (let id = 1; id <= 40; id += 1) store(model, entity, { id: `p${id}`, name: `round ${round}` });
      await publishModel(target, model);
    };
    await publish(0);
    const over = new AbortController();
    const seen = new Set<string>();
    const read = async (): Promise<void> => {
      while (!over.signal.aborted) {
        const states = await ask(
          `SELECT name, count(*)::text AS rows, (SELECT max(number) FROM ${schema}._publications)::text AS number
           FROM ${schema}.news__people GROUP BY name`,
        );
        const [state] = states;
        expect(states).toEqual([
          { name: `round ${Number(state?.['number']) - 1}`, rows: '40', number: state?.['number'] },
        ]);
        seen.add(String(state?.['number']));
      }
    };
    const reading = read();
    for (let round = 1; round <= rounds; round += 1) await publish(round);
    over.abort();
    await reading;
    expect(seen.size).toBeGreaterThan(rounds / 4);
  });

  it('is taken where the newest publication is another one than the manifest follows', async ({ folder }) => {
    await using target = openPostgresTarget(placeOf(folder), untilEnd);
    const model = emptyModel();
    const entity = people(model);
    await publishModel(target, model);
    store(model, entity, { id: 'p4' });
    const restored = await publishModel(target, model, {
      beforeCommit: async () =>
        void (await ask(`UPDATE ${schemaOf(folder)}._publications SET sha256 = 'of another manifest'`)),
    });
    expect(restored).toBe('taken');
    expect(await ask(`SELECT id FROM ${schemaOf(folder)}.news__people`)).toHaveLength(3);
  });

  it('does not wait for the lock of another session for long, and says so', async ({ folder }) => {
    const schema = schemaOf(folder);
    await using target = openPostgresTarget(placeOf(folder), untilEnd);
    const model = emptyModel();
    const entity = people(model);
    await publishModel(target, model);
    addColumns(entity, { name: 'email', type: 'string' });
    store(model, entity, { id: 'p1' });
    await ask('BEGIN');
    await ask(`SELECT * FROM ${schema}.news__people`);
    await expect(publishModel(target, model)).rejects.toMatchObject({
      code: 'TARGET_FAILED',
      recovery: 'retry',
      message: expect.stringContaining('lock of another session'),
    });
    await ask('ROLLBACK');
    await publishModel(target, model);
    expect((await target.newest())?.manifest.publication).toBe(2);
  });

  // Proves promise 20.5
  it.for(['answer', 'request'] as const)(
    'knows whether it has published when the %s of COMMIT is lost',
    async (lost, { folder }) => {
      const proxy = await startPostgresProxy(server().port);
      onTestFinished(() => proxy.close());
      const place = placeOf(folder);
      const hosts = [{ host: '127.0.0.1', port: proxy.port }];
      let isArmed = false;
      let cuts = 0;
      proxy.rule((): Passing => {
        let isAnswered = true;
        return {
          fromClient: (bytes) => {
            if (!isArmed || !isCommit(bytes) || cuts > 0) return bytes.length;
            cuts += 1;
            isAnswered = false;
            return lost === 'answer' ? bytes.length : 0;
          },
          fromServer: ({ length }) => (isAnswered ? length : 0),
        };
      });
      await using target = openPostgresTarget(
        { ...place, connection: { ...place.connection, hosts } },
        untilEnd,
      );
      const model = emptyModel();
      const entity = people(model);
      await publishModel(target, model);
      store(model, entity, { id: 'p4' });
      isArmed = true;
      const published = publishModel(target, model);
      if (lost === 'answer') expect(await published).toBe('published');
      else await expect(published).rejects.toMatchObject({ code: 'TARGET_FAILED', recovery: 'retry' });
      expect(cuts).toBe(1);
      const newest = (await target.newest())?.manifest.publication;
      expect(newest).toBe(lost === 'answer' ? 2 : 1);
      expect(await ask(`SELECT id FROM ${schemaOf(folder)}.news__people`)).toHaveLength(newest === 2 ? 4 : 3);
    },
  );
});

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

const longKey = 'k'.repeat(5_000);

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

  it.for([
    ['dropped the index of long keys', null],
    [
      'replaced the index of long keys by one on other hashes',
      "encode(sha256(decode(replace(id, E'\\\\', E'\\\\\\\\'), 'escape')), 'hex')",
    ],
  ] as const)('is recreated after another program %s', async ([, expression], { folder }) => {
    const schema = schemaOf(folder);
    await using target = openPostgresTarget(placeOf(folder), untilEnd);
    const model = emptyModel();
    const entity = people(model);
    store(model, entity, { id: longKey });
    await publishModel(target, model);
    expect((await target.check(untilEnd)).problems).toEqual([]);
    await ask(`DROP INDEX ${schema}.news__people_sha256_idx`);
    if (expression !== null) await ask(`CREATE UNIQUE INDEX ON ${schema}.news__people (${expression})`);
    const says = 'has lost the unique index on its key';
    expect((await target.check(untilEnd)).problems).toEqual([`table news__people ${says}`]);
    const again = (): void => store(model, people(model, 1), { id: longKey });
    await expectHealed(target, model, { says, again });
    expect(await ask(`SELECT id FROM ${schema}.news__people`)).toHaveLength(2);
  });

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
