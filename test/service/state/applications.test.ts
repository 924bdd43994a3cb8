import { afterEach, beforeEach, describe, expect } from 'vitest';
import { it } from '../../support/it.ts';
import type { ServiceState } from '../../../src/service/state/open-service-state.ts';
import { addApplication, openTestState } from '../../support/service/open-test-state.ts';

let state: ServiceState;
beforeEach(() => {
  state = openTestState();
});
afterEach(() => state[Symbol.dispose]());

const clientId = 'client-of-acme';
const secret = 'secret-of-acme';

describe('authentication of applications', () => {
  it('accepts an application by its id and secret only', async () => {
    const acme = addApplication(state, 'acme');
    expect(await state.applications.authenticate(clientId, secret, '127.0.0.1')).toEqual(acme);
    for (const [id, guess] of [
      [clientId, 'Secret-of-acme'],
      [clientId, ''],
      [clientId, `${secret} `],
      [clientId, `${secret}\u0000`],
      ['client-of-Acme', secret],
      ["' OR 1=1 --", secret],
      ['__proto__', secret],
    ] as const) {
      expect([id, guess, await state.applications.authenticate(id, guess, '127.0.0.1')]).toEqual([
        id,
        guess,
        null,
      ]);
    }
  });

  it('gives an application that is there its new secret, and takes the old one and its tokens away', async () => {
    const acme = addApplication(state, 'acme');
    const { token } = state.tokens.issueApplication(acme);
    expect(addApplication(state, 'acme')).toEqual(acme);
    expect(state.tokens.find(token)).not.toBeNull();

    const changed = { organizationName: 'acme', clientId, clientSecret: 'another' };
    expect(state.applications.put(changed)).toEqual(acme);
    expect(await state.applications.authenticate(clientId, secret, '127.0.0.1')).toBeNull();
    expect(await state.applications.authenticate(clientId, 'another', '127.0.0.1')).toEqual(acme);
    expect(state.tokens.find(token)).toBeNull();
  });

  it('refuses a client id that belongs to another organization', async () => {
    const acme = addApplication(state, 'acme');
    expect(() =>
      state.applications.put({ organizationName: 'other', clientId, clientSecret: 'mine' }),
    ).toThrow(/belongs to another organization/);
    expect(state.applications.list()).toEqual([acme]);
    expect(await state.applications.authenticate(clientId, secret, '127.0.0.1')).toEqual(acme);
  });

  it('shuts a deleted application out, the one that was right a moment ago too', async () => {
    const acme = addApplication(state, 'acme');
    await state.applications.authenticate(clientId, secret, '127.0.0.1');
    const { token } = state.tokens.issueApplication(acme);
    expect(state.applications.delete(clientId)).toBe(true);
    expect(state.applications.delete(clientId)).toBe(false);
    expect(await state.applications.authenticate(clientId, secret, '127.0.0.1')).toBeNull();
    expect(state.tokens.find(token)).toBeNull();
    expect(() => state.tokens.issueApplication(acme)).toThrow(/no longer exists/);
  });

  it('does not believe a secret that was changed or taken away while it was being checked', async ({
    folder,
  }) => {
    for (const meanwhile of [
      ({ applications }: ServiceState) =>
        applications.put({ organizationName: 'acme', clientId, clientSecret: 'second' }),
      ({ applications }: ServiceState) => applications.delete(clientId),
    ]) {
      const first = openTestState({ folder });
      addApplication(first, 'acme');
      first[Symbol.dispose]();
      // Opened again, it has proven nothing yet, and must do the work.
      using second = openTestState({ folder });
      const late = second.applications.authenticate(clientId, secret, '127.0.0.1');
      meanwhile(second);
      expect(await late).toBeNull();
    }
  });

  it('answers a crowd that guesses with 429 instead of working on all of it, and lets the right client through', async () => {
    const acme = addApplication(state, 'acme');
    const guesses = Array.from({ length: 200 }, (_, index) =>
      state.applications
        .authenticate(index % 2 === 0 ? clientId : 'nobody', `guess ${index}`, '127.0.0.1')
        .then(
          (found) => found,
          (error: unknown) => error,
        ),
    );
    expect(await state.applications.authenticate(clientId, secret, '127.0.0.1')).toEqual(acme);
    const ends = await Promise.all(guesses);
    const refused = ends.filter((end) => end !== null);
    expect(refused).toHaveLength(200 - 2 - 8 - 8);
    expect(refused[0]).toMatchObject({ status: 429, headers: { 'retry-after': '1' } });
    expect(await state.applications.authenticate(clientId, 'again', '127.0.0.1')).toBeNull();
  });

  // Proves promise 17.4
  it('lets a client from elsewhere in while one address guesses', async () => {
    const quiet = addApplication(state, 'quiet');
    const ended: string[] = [];
    const ask = async (who: string, clientId: string, address: string): Promise<void> => {
      await state.applications.authenticate(clientId, 'guess', address);
      ended.push(who);
    };
    const guesses = Array.from({ length: 8 }, (_, index) => ask('guess', `guess ${index}`, '192.0.2.1'));
    const honest = [2, 3, 4].map((host) => ask('honest', quiet.clientId, `192.0.2.${host}`));
    await Promise.all([...guesses, ...honest]);
    // Two are checked at once. In one queue the three would begin last; how fast each check is, is up to the machine.
    expect(ended.indexOf('honest')).toBeLessThan(6);
  });
});

describe('what an application may be called', () => {
  it.each(['', ' padded', 'a\u0000b', 'line\nbreak', 'a\u202eb', '\ud800', 'x'.repeat(256)])(
    'refuses %j',
    (name) => {
      expect(() =>
        state.applications.put({ organizationName: name, clientId: 'c', clientSecret: 's' }),
      ).toThrow(/Expected as the name of an organization/);
      expect(() =>
        state.applications.put({ organizationName: 'o', clientId: name, clientSecret: 's' }),
      ).toThrow(/Expected as a client id/);
      expect(state.applications.list()).toEqual([]);
    },
  );

  it.each(["Robert'); DROP TABLE applications;--", '../../etc', '名前 📎', '{"$gt":""}', '%_'])(
    'takes %j as what it is',
    async (name) => {
      const put = state.applications.put({ organizationName: name, clientId: name, clientSecret: name });
      expect(put).toMatchObject({ organizationName: name, clientId: name });
      expect(await state.applications.authenticate(name, name, '127.0.0.1')).toEqual(put);
      expect(state.applications.list()).toEqual([put]);
    },
  );

  it('refuses an empty secret and an endless one without repeating it', () => {
    for (const clientSecret of ['', 'tell-nobody'.repeat(100), 'tell-nobody\ud800']) {
      const put = () => state.applications.put({ organizationName: 'o', clientId: 'c', clientSecret });
      expect(put).toThrow(/^Expected a client secret of 1 to 1024 characters, got (\d+|half a character)\.$/);
    }
  });
});
