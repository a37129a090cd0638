/*
** The public header of vms/: VMs that a program starts.
*/
#ifndef BATON_VMS_H
#define BATON_VMS_H

/* Called once, before there is a VM. */
void baton_vms_install(void);

#endif
