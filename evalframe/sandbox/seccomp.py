"""System calls that foreign code has no use for, refused by a filter in the kernel (x86_64 and aarch64).

This file is loaded inside the workers: standard library only, no import of evalframe. A refused call fails with EPERM
and the program goes on, so that a candidate gets an exception that says so. Calls that are newer than the table fail
with ENOSYS: the C library then takes the older one.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import struct

from . import kernel

# name: number on x86_64, number on aarch64 (-1: there is none)
_REFUSED = {
    # the network, and other processes through sockets
    "socket": (41, 198), "connect": (42, 203), "bind": (49, 200), "listen": (50, 201), "accept": (43, 202),
    "accept4": (288, 242),
    # other programs
    "execve": (59, 221), "execveat": (322, 281), "uselib": (134, -1),
    # other processes: looking in, signals, order of running, shared memory and queues
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "kcmp": (312, 272),
    "process_madvise": (440, 440), "process_mrelease": (448, 448), "pidfd_open": (434, 434),
    "pidfd_getfd": (438, 438), "pidfd_send_signal": (424, 424), "migrate_pages": (256, 238), "move_pages": (279, 239),
    "setpriority": (141, 140), "ioprio_set": (251, 30), "sched_setparam": (142, 118), "sched_setattr": (314, 274),
    "sched_setscheduler": (144, 119), "shmget": (29, 194), "shmat": (30, 196), "shmctl": (31, 195),
    "msgget": (68, 186), "msgsnd": (69, 189), "msgrcv": (70, 188), "msgctl": (71, 187), "semget": (64, 190),
    "semop": (65, 193), "semctl": (66, 191), "semtimedop": (220, 192), "mq_open": (240, 180), "mq_unlink": (241, 181),
    # out of the session, the tree or the identity
    "setsid": (112, 157), "setpgid": (109, 154), "setuid": (105, 146), "setgid": (106, 144), "setreuid": (113, 145),
    "setregid": (114, 143), "setresuid": (117, 147), "setresgid": (119, 149), "setfsuid": (122, 151),
    "setfsgid": (123, 152), "setgroups": (116, 159), "unshare": (272, 97), "setns": (308, 268),
    "personality": (135, 92),
    # what files are called, belong to and allow: Landlock does not guard these
    "chmod": (90, -1), "fchmod": (91, 52), "fchmodat": (268, 53), "fchmodat2": (452, 452), "chown": (92, -1),
    "fchown": (93, 55), "lchown": (94, -1), "fchownat": (260, 54), "setxattr": (188, 5), "lsetxattr": (189, 6),
    "fsetxattr": (190, 7), "removexattr": (197, 14), "lremovexattr": (198, 15), "fremovexattr": (199, 16),
    "utime": (132, -1), "utimes": (235, -1), "futimesat": (261, -1), "utimensat": (280, 88), "truncate": (76, 45),
    "inotify_init": (253, -1), "inotify_init1": (294, 26), "fanotify_init": (300, 262),
    "name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265),
    # memory that no limit counts
    "memfd_create": (319, 279), "memfd_secret": (447, 447),
    # the machine
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51), "open_tree": (428, 428),
    "move_mount": (429, 429), "fsopen": (430, 430), "fsconfig": (431, 431), "fsmount": (432, 432),
    "fspick": (433, 433), "mount_setattr": (442, 442), "swapon": (167, 224), "swapoff": (168, 225),
    "quotactl": (179, 60), "quotactl_fd": (443, 443), "acct": (163, 89), "reboot": (169, 142), "syslog": (103, 116),
    "sethostname": (170, 161), "setdomainname": (171, 162), "settimeofday": (164, 170), "adjtimex": (159, 171),
    "clock_settime": (227, 112), "clock_adjtime": (305, 266), "vhangup": (153, 58), "iopl": (172, -1),
    "ioperm": (173, -1), "modify_ldt": (154, -1), "sync": (162, 81), "syncfs": (306, 267),
    # the kernel's large surfaces
    "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282), "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426), "io_uring_register": (427, 427), "keyctl": (250, 219), "add_key": (248, 217),
    "request_key": (249, 218), "init_module": (175, 105), "finit_module": (313, 273), "delete_module": (176, 106),
    "kexec_load": (246, 104), "kexec_file_load": (320, 294), "lookup_dcookie": (212, 18), "nfsservctl": (180, 42),
}  # fmt: skip
_UNKNOWN = {"clone3": (435, 435), "openat2": (437, 437)}  # their arguments are behind a pointer
_NEW_PROCESS = {"fork": (57, -1), "vfork": (58, -1)}
_TO_A_PROCESS = {
    "kill": (62, 129), "tgkill": (234, 131), "tkill": (200, 130), "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
}  # fmt: skip
_OF_A_PROCESS = {"prlimit64": (302, 261), "sched_setaffinity": (203, 122)}  # 0 is oneself
_CLONE, _FCNTL, _IOCTL, _PRCTL, _SOCKETPAIR = (56, 220), (72, 25), (16, 29), (157, 167), (53, 199)
_OPEN, _OPENAT = (2, -1), (257, 56)
_NEWEST = 462  # the last call that this table was made with

_CLONE_THREAD, _CLONE_NAMESPACES = 0x10000, 0x7E020000
_OWNERS = (8, 10, 15)  # F_SETOWN, F_SETSIG, F_SETOWN_EX: signals to others when a file becomes ready
_TERMINAL = (0x8901, 0x8902, 0x5412, 0x541C)  # the same for sockets; input of a terminal
_PROPERTIES = (1, 4, 35, 36, 0x59616D61)  # PDEATHSIG, DUMPABLE, MM, CHILD_SUBREAPER, PTRACER
_AUDIT = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}

_LOAD, _EQUAL, _GREATER, _AT_LEAST, _ANY_BIT, _AND, _RETURN = 0x20, 0x15, 0x25, 0x35, 0x45, 0x54, 0x06
_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_NUMBER, _ARCHITECTURE = 0, 4
_OWN = 0x7E5EED7E  # stands for the process id; no number of the filter's own
_OWN_WORD = struct.pack("=I", _OWN)


class _Program(kernel.Structure):
    _fields_ = (("count", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def refuse_system_calls(*, processes: bool) -> None:
    """Set the filter for this process, its threads and all that comes of it; it can not be taken off.

    Args:
        processes: Whether it may fork and send signals; else to itself alone.

    Raises:
        OSError: The kernel has no filters, or not on this machine type.
    """
    if not is_known():
        raise OSError(errno.ENOSYS, f"no table of system calls for {kernel.MACHINE}")
    own = kernel.call("getpid")  # by the kernel's word, not by what Python kept
    code = prepared(processes).replace(_OWN_WORD, struct.pack("=I", own))
    program = _Program(len(code) // 8, code)
    kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
    kernel.call("prctl", kernel.PR_SET_SECCOMP, 2, ctypes.byref(program), 0, 0)


def is_known() -> bool:
    """Whether there is a table for this type of machine."""
    return kernel.MACHINE in _AUDIT


@functools.cache
def prepared(processes: bool) -> bytes:
    """Write the filter, with a word in the place of the process id: a warm worker does it once, before it forks."""
    return b"".join(_filter(processes))


def _filter(processes: bool) -> list[bytes]:
    place = 0 if kernel.MACHINE == "x86_64" else 1
    refuse, unknown = [_end(_ERRNO | errno.EPERM)], [_end(_ERRNO | errno.ENOSYS)]
    code = [_step(_LOAD, _ARCHITECTURE), _step(_EQUAL, _AUDIT[kernel.MACHINE], 1, 0), _end(_KILL)]
    code += [_step(_LOAD, _NUMBER), *_where(_GREATER, _NEWEST, unknown)]  # also the x32 calls of x86_64
    for number in _numbers(_REFUSED, place) + ([] if processes else _numbers(_NEW_PROCESS, place)):
        code += _where(_EQUAL, number, refuse)
    for number in _numbers(_UNKNOWN, place):
        code += _where(_EQUAL, number, unknown)

    def watch(numbers: tuple[int, int], body: list[bytes]) -> None:
        if numbers[place] >= 0:
            code.extend(_where(_EQUAL, numbers[place], [*body, _end(_ALLOW)]))

    if not processes:
        for numbers in _TO_A_PROCESS.values():
            watch(numbers, [_argument(0), *_unless(_OWN, refuse)])
    for numbers in _OF_A_PROCESS.values():
        watch(numbers, [_argument(0), *_where(_EQUAL, 0, [_end(_ALLOW)]), *_unless(_OWN, refuse)])
    threads_only = [] if processes else [_step(_ANY_BIT, _CLONE_THREAD, 1, 0), *refuse]
    watch(_CLONE, [_argument(0), *_where(_ANY_BIT, _CLONE_NAMESPACES, refuse), *threads_only])
    for numbers, index, values in ((_FCNTL, 1, _OWNERS), (_IOCTL, 1, _TERMINAL), (_PRCTL, 0, _PROPERTIES)):
        watch(numbers, [_argument(index), *(step for value in values for step in _where(_EQUAL, value, refuse))])
    # a pair of connected streams is what event loops wake up with; a datagram socket could be sent elsewhere
    stream = [_argument(1), _step(_AND, 0xF), *_unless(1, refuse)]
    watch(_SOCKETPAIR, [_argument(0), *_unless(1, refuse), *stream])
    # truncating while opening for reading: older kernels ask Landlock for reading only
    for numbers, index in ((_OPEN, 1), (_OPENAT, 2)):
        watch(numbers, [_argument(index), _step(_AND, 0o1003), *_where(_EQUAL, 0o1000, refuse)])
    return [*code, _end(_ALLOW)]


def _numbers(table: dict[str, tuple[int, int]], place: int) -> list[int]:
    return [numbers[place] for numbers in table.values() if numbers[place] >= 0]


def _step(code: int, value: int, when: int = 0, otherwise: int = 0) -> bytes:
    return struct.pack("=HBBI", code, when, otherwise, value)


def _end(action: int) -> bytes:
    return _step(_RETURN, action)


def _argument(index: int) -> bytes:
    return _step(_LOAD, 16 + 8 * index)  # the low half: both machine types are little-endian


def _where(test: int, value: int, body: list[bytes]) -> list[bytes]:
    return [_step(test, value, 0, len(body)), *body]


def _unless(value: int, body: list[bytes]) -> list[bytes]:
    return [_step(_EQUAL, value, len(body), 0), *body]
