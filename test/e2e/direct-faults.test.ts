import { describe, expect, it } from 'vitest';
import { jsonAnswer } from '../support/upstream/fake-server.ts';
import { edgePage, instead, onPath } from '../support/upstream/faults.ts';
import { openDirectWorld, worldRows } from '../support/upstream/direct-world.ts';
import { mailchimpWorld } from '../support/upstream/upstream-world.ts';
import { differencesFrom, noDifferences } from '../support/sample-sinks.ts';

const members = onPath('/lists/{list_id}/members');

describe('a direct sync of a service in trouble', () => {
  it('waits where it is asked to, repeats what failed, and stores everything', async () => {
    await using world = await mailchimpWorld({ as: 'my-mail' });
    await using direct = openDirectWorld(world);
    world.fake.script({
      on: members,
      effect: instead(jsonAnswer(429, { status: 429, title: 'Too Many Requests' }, { 'retry-after': '1' })),
    });
    world.fake.script({
      on: onPath('/campaigns'),
      effect: instead(jsonAnswer(500, { status: 500, title: 'Internal Server Error' })),
    });
    world.fake.script({
      on: onPath('/reports'),
      effect: instead({ status: 200, headers: { 'content-type': 'text/html' }, body: '<html>' }),
    });
    const result = await direct.cli('sync');
    expect({ code: result.code, stderr: result.stderr }).toMatchObject({ code: 0 });
    expect(result.stdout).toMatch(/ 3 retries/);
    const found = differencesFrom(worldRows(world), world.definition, (table) => direct.stored(table));
    expect(found).toEqual(noDifferences);
  });

  // Proves promise 10
  it('stops when the key is revoked on the way, keeps what was stored, and resumes with it', async () => {
    await using world = await mailchimpWorld({ as: 'my-mail' });
    await using direct = openDirectWorld(world);
    const revoked = jsonAnswer(401, {
      status: 401,
      title: 'API Key Invalid',
      detail: `Not a key: ${direct.env['MY_API_KEY'] ?? ''}`,
    });
    world.fake.script({ on: members, times: 100, effect: instead(revoked) });
    const stopped = await direct.cli('sync');
    expect(stopped.code).toBe(4);
    const text = stopped.stdout + stopped.stderr;
    expect(text).toContain("check the connector's credentials in the config");
    for (const secret of Object.values(direct.env)) expect(text).not.toContain(secret);
    const lists = [...world.definition.entities.values()].find(({ name }) => name === 'lists');
    if (lists === undefined) throw new Error('expected lists');
    expect(direct.stored(lists.table).size).toBeGreaterThan(0);
    world.fake.heal();
    expect((await direct.cli('sync')).code).toBe(0);
    const found = differencesFrom(worldRows(world), world.definition, (table) => direct.stored(table));
    expect(found).toEqual(noDifferences);
  });

  it('says what came where a network in front of the service refuses calls, and that the service did not ask for the pause', async () => {
    await using world = await mailchimpWorld({ as: 'my-mail' });
    await using direct = openDirectWorld(world);
    world.fake.script({ on: onPath('/automations'), times: 100, effect: edgePage(403) });
    const result = await direct.cli('sync');
    expect(result.code).toBe(3);
    expect(result.stdout).toMatch(
      /! refused by the network in front of \S+ \(HTTP 403\), so no more calls are made until \S+Z; run it again then/,
    );
    expect(result.stdout + result.stderr).not.toMatch(/asked to wait|asked for quiet/);
    world.fake.heal();
    expect((await direct.cli('sync')).code).toBe(0);
  });

  it('leaves out an entity that the key may not read, and stores the others', async () => {
    await using world = await mailchimpWorld({ as: 'my-mail' });
    await using direct = openDirectWorld(world);
    const forbidden = jsonAnswer(403, { status: 403, title: 'Forbidden', detail: 'not for your role' });
    world.fake.script({ on: onPath('/automations'), times: 100, effect: instead(forbidden) });
    const result = await direct.cli('sync');
    expect(result.code).toBe(3);
    expect(result.stdout).toContain('not for your role');
    const { lost, different } = differencesFrom(worldRows(world), world.definition, (table) =>
      direct.stored(table),
    );
    expect({ lost, different }).toEqual({ lost: worldRows(world).get('automations')?.size, different: 0 });
  });
});
