import { afterEach, beforeEach, describe, expect, it } from 'vitest';
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
  it('accepts an application by its id and secret only', () => {
    const acme = addApplication(state, 'acme');
    expect(state.applications.authenticate(clientId, secret)).toEqual(acme);
    for (const [id, guess] of [
      [clientId, 'Secret-of-acme'],
      [clientId, ''],
      [clientId, `${secret} `],
      [clientId, `${secret}\u0000`],
      ['client-of-Acme', secret],
      ["' OR 1=1 --", secret],
      ['__proto__', secret],
    ] as const) {
      expect([id, guess, state.applications.authenticate(id, guess)]).toEqual([id, guess, null]);
    }
  });

  it('gives an application that is there its new secret, and takes the old one and its tokens away', () => {
    const acme = addApplication(state, 'acme');
    const { token } = state.tokens.issueApplication(acme);
    expect(addApplication(state, 'acme')).toEqual(acme);
    expect(state.tokens.find(token)).not.toBeNull();

    const changed = { organizationName: 'acme', clientId, clientSecret: 'another' };
    expect(state.applications.put(changed)).toEqual(acme);
    expect(state.applications.authenticate(clientId, secret)).toBeNull();
    expect(state.applications.authenticate(clientId, 'another')).toEqual(acme);
    expect(state.tokens.find(token)).toBeNull();
  });

  it('refuses a client id that belongs to another organization', () => {
    const acme = addApplication(state, 'acme');
    expect(() =>
      state.applications.put({ organizationName: 'other', clientId, clientSecret: 'mine' }),
    ).toThrow(/belongs to another organization/);
    expect(state.applications.list()).toEqual([acme]);
    expect(state.applications.authenticate(clientId, secret)).toEqual(acme);
  });

  it('shuts a deleted application out, also right after it was let in', () => {
    const acme = addApplication(state, 'acme');
    state.applications.authenticate(clientId, secret);
    const { token } = state.tokens.issueApplication(acme);
    expect(state.applications.delete(clientId)).toBe(true);
    expect(state.applications.delete(clientId)).toBe(false);
    expect(state.applications.authenticate(clientId, secret)).toBeNull();
    expect(state.tokens.find(token)).toBeNull();
    expect(() => state.tokens.issueApplication(acme)).toThrow(/no longer exists/);
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
    (name) => {
      const put = state.applications.put({ organizationName: name, clientId: name, clientSecret: name });
      expect(put).toMatchObject({ organizationName: name, clientId: name });
      expect(state.applications.authenticate(name, name)).toEqual(put);
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
