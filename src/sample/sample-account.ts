import type { JsonObject } from '../core/json.ts';
import type { Params } from '../core/records.ts';
import type { ProviderFile } from '../service/provider.ts';
import type { Listing } from './listing.ts';

/**
 * `small`: a few seconds' walk with something of everything. `tiny`: few calls. `{ members }`: one mailing list with
 * that many members, up to a million; a workspace of notes and a library are then `tiny`.
 */
export type SampleSize = 'tiny' | 'small' | { readonly members: number };

export interface SampleAccountOptions {
  /** One of `sampleDefinitions`. */
  readonly definitionName: string;
  /** Any integer: the same seed and size make the same account. */
  readonly seed: number;
  readonly size: SampleSize;
  /** 0 (default) to `maxSampleRevision`: the account after so many rounds of changes. See `revisionTime`. */
  readonly revision?: number;
}

/** A third-party account as its connector sees it. Tests wrap it to make it behave otherwise. */
export interface SampleAccount {
  /** `params` as the definition types them. Throws `ApiError` 404 for an unknown parent, 400 for a value it cannot use. */
  list(entity: string, params: Params): Listing;
  /** Null when there is no such record. */
  get(entity: string, params: Params): JsonObject | null;
  /** Null when there is no such file. Absent: the account has no files. */
  file?(entity: string, params: Params): ProviderFile | null;
}
