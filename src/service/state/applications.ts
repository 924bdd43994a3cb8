import { randomUUID, timingSafeEqual } from 'node:crypto';
import { hasAtMostCharacters } from '../../core/characters.ts';
import { type Clock, type Instant, instant } from '../../core/clock.ts';
import { usage } from '../../core/usage-error.ts';
import type { StateFile } from './open-state-file.ts';
import { isPlainName, plainNameRule } from './plain-name.ts';
import { hashOf } from './tokens.ts';

/**
 * An organization's client: the only way in. Its secret is kept as a SHA-256 hash alone: it is generated, or of at
 * least 16 random characters, so it cannot be guessed from the hash.
 */
export interface Application {
  readonly clientId: string;
  readonly organizationId: string;
  readonly organizationName: string;
  readonly createdAt: Instant;
}

type NewApplication = Pick<Application, 'organizationName' | 'clientId'> & { readonly clientSecret: string };

interface ApplicationRow extends Application {
  readonly secret: Buffer;
}

const maxSecretLength = 1_024;

export function createApplications({ ask, run, write }: StateFile, clock: Clock) {
  const select = `SELECT client_id, organization_id, organizations.name AS organization_name, applications.created_at, secret
    FROM applications JOIN organizations ON organizations.id = organization_id`;
  const byId = `${select} WHERE client_id = :clientId`;

  return {
    /**
     * Makes the application, and its organization where there is none of this name; one that already exists gets the
     * new secret. Throws `SyncError` USAGE for a client id of another organization.
     */
    put({ organizationName, clientId, clientSecret }: NewApplication): Application {
      checkNames(organizationName, clientId);
      checkSecret(clientSecret);
      const secret = hashOf(clientSecret);
      return write(() => {
        const present = ask<ApplicationRow>(byId, { clientId }).first;
        const now = instant(clock.now());
        if (present === undefined) {
          run(
            'INSERT INTO organizations (id, name, created_at) VALUES (:id, :organizationName, :now) ON CONFLICT (name) DO NOTHING',
            { id: randomUUID(), organizationName, now },
          );
          run(
            `INSERT INTO applications (client_id, organization_id, secret, created_at)
             SELECT :clientId, id, :secret, :now FROM organizations WHERE name = :organizationName`,
            { clientId, secret, now, organizationName },
          );
        } else if (present.organizationName !== organizationName) {
          throw usage(
            `The client id ${clientId} belongs to another organization than ${organizationName}. Choose another client id.`,
          );
        } else if (!secret.equals(present.secret)) {
          run('UPDATE applications SET secret = :secret WHERE client_id = :clientId', { secret, clientId });
          // Clients with the old secret are shut out now, not when their tokens expire.
          run('DELETE FROM tokens WHERE client_id = :clientId', { clientId });
        }
        return withoutSecret(ask<ApplicationRow>(byId, { clientId }).one());
      });
    },
    /** Null for an unknown id as for a wrong secret. */
    authenticate(clientId: string, clientSecret: string): Application | null {
      const row = ask<ApplicationRow>(byId, { clientId }).first;
      return row !== undefined && timingSafeEqual(hashOf(clientSecret), row.secret)
        ? withoutSecret(row)
        : null;
    },
    list: (): readonly Application[] =>
      ask<ApplicationRow>(`${select} ORDER BY sequence`).all.map(withoutSecret),
    /** Its tokens are deleted with it. False: there was none. */
    delete: (clientId: string): boolean =>
      run('DELETE FROM applications WHERE client_id = :clientId', { clientId }) > 0,
  };
}

function withoutSecret({ secret: _secret, ...application }: ApplicationRow): Application {
  return application;
}

function checkNames(organizationName: string, clientId: string): void {
  if (!isPlainName(organizationName)) {
    throw usage(`Expected as the name of an organization ${plainNameRule}.`);
  }
  if (!isPlainName(clientId)) throw usage(`Expected as a client id ${plainNameRule}.`);
}

function checkSecret(secret: string): void {
  if (secret.length > 0 && hasAtMostCharacters(secret, maxSecretLength) && secret.isWellFormed()) return;
  throw usage(
    `Expected a client secret of 1 to ${maxSecretLength} characters, got ${secret.isWellFormed() ? Array.from(secret).length : 'half a character'}.`,
  );
}
