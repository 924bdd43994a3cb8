import type { Operation } from './operation.ts';
import { placeText, type Paging } from './paging.ts';
import type { ServiceFile } from './service-file.ts';

/** Through a Connector Execution API, or the service itself. */
export type ModeName = 'hosted' | 'direct';

export interface Mode {
  readonly name: ModeName;
  /** Why a listing that pages like this cannot be read; null: it can. */
  readonly refusesPaging: (paging: Paging) => string | null;
}

/** What an import reads from. */
export interface Sources {
  readonly service: ServiceFile;
  /** Lower-case names of headers that a way to sign in sends. */
  readonly signedHeaders: ReadonlySet<string>;
  /** The operation that reads one record. */
  readonly getOf: (entity: string) => Operation | null;
  /** One for each entity that has a listing. */
  readonly listings: readonly Operation[];
}

export const hosted: Mode = {
  name: 'hosted',
  refusesPaging: (paging) => {
    if (paging.kind === 'token' && paging.token.key === null) {
      return `page 1 only: the token in ${placeText(paging.token)} is in no key of connector_metadata`;
    }
    if (paging.kind === 'address' && (paging.param === null || paging.address.key === null)) {
      return `page 1 only: the API takes no parameter of the next address in ${placeText(paging.address)}`;
    }
    return null;
  },
};

export const direct: Mode = {
  name: 'direct',
  refusesPaging: () => null,
};
