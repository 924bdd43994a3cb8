import type { Answers } from './answers.ts';
import type { Manifest } from './manifest.ts';
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
  readonly answers: Answers;
  readonly manifest: Manifest | null;
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
    switch (paging.kind) {
      case 'single':
      case 'offset':
        return null;
      case 'token':
        if (paging.param.sent !== paging.param.name) {
          return `its parameter ${paging.param.sent} cannot be declared`;
        }
        if (paging.token.key === null) {
          return `page 1 only: the token in ${placeText(paging.token)} is in no key of connector_metadata`;
        }
        return paging.token.key.includes('.')
          ? `the token is within an object of connector_metadata (${paging.token.key})`
          : null;
      case 'address':
        return paging.param === null
          ? `page 1 only: the API takes no parameter of the next address in ${placeText(paging.address)}`
          : `the token is within an address (${placeText(paging.address)})`;
      case 'page':
        return 'it counts pages, which hosted connectors cannot do yet';
      case 'lastRecord':
        return 'its token is a field of the last record, which hosted connectors cannot do yet';
    }
  },
};

export const direct: Mode = {
  name: 'direct',
  refusesPaging: (paging) =>
    paging.kind === 'address' && paging.param === null
      ? `the file declares no parameter of the next address in ${placeText(paging.address)}`
      : null,
};
