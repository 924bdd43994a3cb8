import type { Secret } from '../../core/secret.ts';

/** How to reach an account of the service, as the settings say it. */
export interface ApiSettings {
  readonly baseUrl: string;
  readonly clientId: string;
  readonly clientSecret: Secret;
  /** Sent as X-Organization-Id; null: the token says which organization. */
  readonly organizationId: string | null;
  /**
   * Every call but those for tokens carries a token that sees this workspace alone; absent or null: the account's own
   * token.
   */
  readonly scopedToWorkspace?: string | null;
  /** How connectors are looked up before their runs. */
  readonly lookups: LookupSettings;
}

/** Look-ups of connectors are calls of the account, not of a connector: they have limits of their own. */
interface LookupSettings {
  /** Of each process. */
  readonly requestsPerSecond: number;
  /** Look-ups at a time. */
  readonly concurrency: number;
  /** How long an answer is cached; 0: every run asks again. */
  readonly cacheForMs: number;
}
