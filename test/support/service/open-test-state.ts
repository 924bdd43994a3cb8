import {
  openServiceState,
  type ServiceStateOptions,
  type ServiceState,
  type Application,
  type Principal,
} from '../../../src/service/state/open-service-state.ts';

const testKey = Buffer.alloc(32, 7);

/** A clock that stands still until the test advances it. */
export function manualClock() {
  let time = Date.UTC(2026, 0, 1);
  return {
    now: () => time,
    sleep: () => Promise.resolve(),
    pass: (ms: number) => {
      time += ms;
    },
  };
}

export function openTestState(options: Partial<ServiceStateOptions> = {}): ServiceState {
  return openServiceState({
    folder: null,
    key: testKey,
    clock: manualClock(),
    tokenTtlSeconds: 900,
    maxTokens: 1000,
    tokensPerSecond: 10_000,
    ...options,
  });
}

export function addApplication(state: ServiceState, organizationName: string): Application {
  return state.applications.put({
    organizationName,
    clientId: `client-of-${organizationName}`,
    clientSecret: `secret-of-${organizationName}`,
  });
}

export function principalOf(state: ServiceState, application: Application): Principal {
  const principal = state.tokens.find(state.tokens.issueApplication(application).token);
  if (principal === null) throw new Error('expected the new token to be found');
  return principal;
}
