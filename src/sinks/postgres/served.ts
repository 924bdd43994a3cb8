export const openServedPostgres: any = () => { throw new Error('later'); };
